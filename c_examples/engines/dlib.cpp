// dlib under Umbo: a convolutional network learns handwritten digits on two replicas. Teaches how a network of dlib's trains there: a
// trainer with the functions of dlib::dnn_trainer, over a strategy.
//
//   dlib FOLDER [REPLICAS]     a folder with files in the IDX format of MNIST, such as c_examples/data/digits
#include <umbo/adapters/dlib.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using image = dlib::matrix<unsigned char>;
template <long Filters, class Below>
using convolved = dlib::max_pool<2, 2, 2, 2, dlib::relu<dlib::con<Filters, 3, 3, 1, 1, Below>>>;
using net_type = dlib::loss_multiclass_log<dlib::fc<10, convolved<16, convolved<8, dlib::input<image>>>>>;

struct digits {
  std::vector<image> images;
  std::vector<unsigned long> labels;

  digits(const std::string &folder, const std::string &name) {
    const auto bytes_of = [&](const std::string &kind, std::ptrdiff_t header) {
      std::ifstream file(folder + "/" + name + kind, std::ios::binary);
      const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
      if (all.empty()) std::perror((folder + "/" + name + kind).c_str()), std::exit(1);
      return std::vector<unsigned char>(all.begin() + header, all.end());
    };
    const auto pictures = bytes_of("-images-idx3-ubyte", 16), classes = bytes_of("-labels-idx1-ubyte", 8);
    for (std::size_t row = 0; row < classes.size(); ++row) {
      image made(8, 8);
      for (long at = 0; at < 64; ++at) made(at / 8, at % 8) = static_cast<unsigned char>(pictures[row * 64 + static_cast<std::size_t>(at)] * 15);
      images.push_back(made);
      labels.push_back(classes[row]);
    }
  }
};

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [REPLICAS]\n", argv[0]);
    return 2;
  }
  const digits training(argv[1], "train"), test(argv[1], "t10k");
  const auto strategy = umbo::adapters::blas_strategy(argc > 2 ? std::atoi(argv[2]) : 2); // the BLAS's threads are set
  umbo::adapters::dlib_trainer<net_type> trainer(strategy, net_type(), training.images.front(), dlib::adam());
    trainer.set_mini_batch_size(32);
  trainer.set_max_num_epochs(25);
  trainer.be_verbose();
  trainer.train(training.images, training.labels);

  net_type net = trainer.get_net();
  dlib::serialize("digits.dat") << net; // for programs without Umbo
  const auto found = net(test.images);
  double right = 0;
  for (std::size_t row = 0; row < found.size(); ++row) right += found[row] == test.labels[row] ? 1 : 0;
  const double share = right / static_cast<double>(found.size());
  std::printf("%d replicas: %.1f %% of %d pictures are right\n", static_cast<int>(strategy.replica_count()), 100 * share,
              static_cast<int>(found.size()));
  return share > 0.9 ? 0 : 1;
}
