// A training that takes turns with others: a turn is a pass over the same made-up examples.
#ifndef TRAINING_HPP
#define TRAINING_HPP

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

extern "C" {
#include "../peers/turns.h"
}

class training {
public:
  virtual ~training() = default;
  // Trains on all examples once; gives the mean loss.
  virtual double pass() = 0;
};

// Passes are timed by turns.c. The first two are not, and have to bring the loss down.
class passes {
public:
  using maker = std::unique_ptr<training> (*)(int processors);

  passes(maker make, int processors) : make_(make), processors_(processors) {}

  static workload timed(const char *name, double samples, passes &of) {
    workload work{};
    work.name = name;
    work.calls = 3;
    work.samples = samples;
    work.data = &of;
    work.prepare = [](void *own) { self(own).training_ = self(own).make_(self(own).processors_); };
    work.check = [](void *own) {
      const double before = self(own).loss_, after = self(own).training_->pass();
      if (!(after < before)) give_up("the loss went from %g to %g", before, after);
    };
    work.call = [](void *own) { self(own).loss_ = self(own).training_->pass(); };
    return work;
  }

private:
  static passes &self(void *own) { return *static_cast<passes *>(own); }

  maker make_;
  int processors_;
  std::unique_ptr<training> training_;
  double loss_ = 0;
};

#endif
