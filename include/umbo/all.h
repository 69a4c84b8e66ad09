/* Generated from src; do not edit. */
#ifndef UMBO_ALL_H
#define UMBO_ALL_H

/**
 * @file all.h
 * @brief All headers, for bindings and tools.
 */

#include <umbo/umbo.h>
#include <umbo/trainer.h>
#include <umbo/expert.h>
#include <umbo/io.h>
#include <umbo/cluster.h>
#include <umbo/diagnose.h>
#include <umbo/gpu.h>
#include <umbo/tensorflow.h>

#endif
