/* What the command line asks for. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdint.h>

typedef enum { RULE_ADAM, RULE_MOMENTUM } update_rule;

typedef struct {
  const char *data; /* folder of the IDX files */
  int replicas;         /* that compute at a time in this process */
  int replicas_in_sync; /* of all processes together; 0: as many as compute */
  int epochs;
  int64_t batch_size; /* over all replicas */
  uint64_t seed;
  update_rule rule;
  double learning_rate;
  const char *checkpoint; /* folder of the checkpoints; NULL: none are saved */
  int64_t save_every;     /* steps */
  const char *history;    /* file of the history; NULL: none is written */
  int resume;
  int compare;
  int json_only;
  int workers; /* train together with the other processes of MPI's */
  int64_t state_bits; /* of the optimizer's states; 0: as in the weights */
  int rounds_weights; /* they are kept in bfloat16 */
} options;

/* What the help says of the program and of the options that it has in C++, too. */
extern const char options_of_all_programs[];

/* Ends the program with status 2 and a message when an option is wrong, and with 0 after --help. */
options options_parse(int argc, char **argv);

#endif
