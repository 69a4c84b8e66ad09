/* The history of a training: one line of comma-separated values for each epoch, which `umbo plot` draws and any
 * spreadsheet reads. */
#ifndef HISTORY_H
#define HISTORY_H

#include "trainer.h"

#include <stdio.h>

/* Opens the file. goes_on: what is there stays, and lines are added to it. NULL stands for no file. */
FILE *history_open(const char *name, int goes_on);

/* Writes the line of an epoch; without a file nothing happens. seconds: spent on training in this epoch. */
void history_epoch(FILE *history, int epoch, const tally *training, const tally *test, double seconds);

#endif
