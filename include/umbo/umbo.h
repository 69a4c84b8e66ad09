/* Generated from src/ffi; do not edit. */
#ifndef UMBO_UMBO_H
#define UMBO_UMBO_H

/**
 * @file umbo.h
 * @brief Umbo: central-storage data-parallel training for C and C++.
 *
 * This header includes one for each noun, which can be included alone:
 * - core.h: status and last error, the types of handles, version, log. Begin there: it says what
 *   holds for all functions (ownership, pointers, callbacks, threads, memory, options).
 * - device.h: devices.
 * - tensor.h: tensors and views.
 * - value.h: values, which are nests of tensors.
 * - strategy.h: strategies, scopes, runs, updates.
 * - replica_context.h: what a replica's callback knows, and where replicas meet.
 * - collective.h: reducing and gathering.
 * - variable.h: variables.
 * - dataset.h: datasets, their distribution, iterators.
 * - gradients.h: gradients.
 * - optimizer.h: optimizers.
 * - metrics.h: metrics that accumulate over runs.
 * - checkpoint.h: saving what training needs, and going on from it.
 * - training.h: a pass over a dataset in one call.
 * - equivalence.h: whether a step does the same on one replica as on many.
 * - cluster_resolver.h: clusters.
 * - communicator.h: what joins the processes of a training.
 * - observe.h: what steps spend their time on, and the trace.
 *
 * tensorflow.h, which is not among them, has what only programs need that follow TensorFlow's
 * strategy call by call. C++ programs include umbo.hpp instead.
 */

#include <umbo/core.h>
#include <umbo/device.h>
#include <umbo/tensor.h>
#include <umbo/value.h>
#include <umbo/strategy.h>
#include <umbo/replica_context.h>
#include <umbo/collective.h>
#include <umbo/variable.h>
#include <umbo/dataset.h>
#include <umbo/gradients.h>
#include <umbo/optimizer.h>
#include <umbo/metrics.h>
#include <umbo/checkpoint.h>
#include <umbo/training.h>
#include <umbo/equivalence.h>
#include <umbo/cluster_resolver.h>
#include <umbo/communicator.h>
#include <umbo/observe.h>

#endif
