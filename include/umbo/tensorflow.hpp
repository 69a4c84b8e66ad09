// What only programs need that follow TensorFlow's strategy call by call; see tensorflow.h. Here all
// of it is in the namespace `umbo::tensorflow`: functions that take the strategy first.
#ifndef UMBO_TENSORFLOW_HPP
#define UMBO_TENSORFLOW_HPP

#include <umbo/umbo.hpp>

#include <umbo/cpp/tensorflow.hpp>
#include <umbo/cpp/variable_creator.hpp>

#endif
