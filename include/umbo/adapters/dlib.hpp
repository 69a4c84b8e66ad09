// dlib under Umbo: each replica has a network of its own. The first one's parameters are variables where they lie, the
// others copy them before they compute, and updates read the gradients where dlib leaves them. Not part of umbo.hpp; needs
// dlib (19.24 or newer) compiled for CPUs, C++17 and exceptions.
//
//     #include <umbo/adapters/dlib.hpp>
//
//     net_type net;
//     umbo::adapters::dlib_trainer<net_type> trainer(umbo::adapters::blas_strategy(2), net, images.front(), dlib::sgd(0.0005f, 0.9f));
//     trainer.set_learning_rate(0.01);
//     trainer.set_mini_batch_size(128);
//     trainer.train(images, labels);
//     dlib::serialize("net.dat") << trainer.get_net();
//
// What a step means does not depend on the number of replicas: dlib's losses are means over a replica's examples, weighted
// by these. A batch normalisation normalises with the statistics of the replica's part.
#ifndef UMBO_ADAPTERS_DLIB_HPP
#define UMBO_ADAPTERS_DLIB_HPP

#include <umbo/adapters/blas.hpp>
#include <umbo/adapters/dlib/layers.hpp>
#include <umbo/adapters/dlib/model.hpp>
#include <umbo/adapters/dlib/trainer.hpp>

#endif
