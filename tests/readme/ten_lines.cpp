// The ten lines of LibTorch in docs/engines.md, whose loop stands in a loop over epochs, as a program has them. The network is none.
#include <umbo/adapters/torch.hpp>

#include <cstdio>

namespace {

struct NetImpl {
    int forward(int given) const { return given; }
};

constexpr std::int64_t epochs = 3, rows = 150;

// How many updates were made.
std::int64_t updates() {
    const auto x = umbo::tensor::create_zeros(umbo::dtype::float32, {rows, 8});
    const auto y = umbo::tensor::create_zeros(umbo::dtype::int64, {rows});
#include "epochs.inc"
    return adam.info().iterations;
}

} // namespace

int main() {
    // Batches of 64, the last one smaller.
    if (updates() == epochs * 3 && umbo::adapters::examples == epochs * rows) return 0;
    std::printf("%lld examples in %lld epochs\n", static_cast<long long>(umbo::adapters::examples),
                static_cast<long long>(epochs));
    return 1;
}
