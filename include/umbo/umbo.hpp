// Umbo for C++17 and later: the C API with owners, exceptions and callables.
//
// - Every noun of the C API is a class that owns one reference to its handle. Moving passes the
//   reference on, copying makes another (the same object, not a copy of its contents), the
//   destructor gives it back. `get()` lends the handle, `release()` gives it up.
// - A status that is not OK becomes an exception: `umbo::error`, or, when a callable threw, the
//   very exception that it threw, in the thread that called the library.
// - Compiled without exceptions (or with UMBO_NO_EXCEPTIONS), each function that would throw returns
//   a `umbo::result` instead; see result.hpp.
// - The constants of the C enums are enums of their own: `umbo::dtype::float32`; see enums.hpp.
// - Options are structs with the defaults of C, to be named in C++20:
//   `umbo::optimizer::sgd(strategy, {.learning_rate = 0.5})`.
// - Views of values, variables and const tensors are to be read; what writes is a tensor that is not
//   const, or a gradient.
// - Callables take the place of callback and user data. Nothing that they throw crosses the C
//   border. `run` calls them on several threads at once.
//
// `umbo/tensorflow.hpp`, which is not included here, has what only programs need that follow
// TensorFlow's strategy call by call.
//
// Everything here is inline; the only thing to link is the C library.
#ifndef UMBO_UMBO_HPP
#define UMBO_UMBO_HPP

#if __cplusplus < 201703L
#error "umbo/umbo.hpp needs C++17: compile with -std=c++17 or later"
#endif

#include <umbo/cpp/error.hpp>
#include <umbo/cpp/result.hpp>
#include <umbo/cpp/handle.hpp>
#include <umbo/cpp/library.hpp>
#include <umbo/cpp/view.hpp>

#include <umbo/cpp/tensor.hpp>

#include <umbo/cpp/variable.hpp>

#include <umbo/cpp/value.hpp>

#include <umbo/cpp/nest.hpp>

#include <umbo/cpp/callback.hpp>

#include <umbo/cpp/element_spec.hpp>

#include <umbo/cpp/dataset.hpp>

#include <umbo/cpp/cluster_resolver.hpp>
#include <umbo/cpp/communicator.hpp>

#include <umbo/cpp/strategy.hpp>

#include <umbo/cpp/observe.hpp>

#include <umbo/cpp/gradients.hpp>

#include <umbo/cpp/optimizer.hpp>

#include <umbo/cpp/random.hpp>

#include <umbo/cpp/replica_context.hpp>

#include <umbo/cpp/metrics.hpp>

#include <umbo/cpp/checkpoint.hpp>

#include <umbo/cpp/training.hpp>

#include <umbo/cpp/trainer.hpp>

#include <umbo/cpp/equivalence.hpp>

#endif
