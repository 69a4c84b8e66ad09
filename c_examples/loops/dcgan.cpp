// A generator learns to draw what a discriminator cannot tell from pictures, in the form of the DCGAN tutorial of LibTorch: two
// networks with normalisations and two rules, which take turns in a loop. dcgan.diff puts Umbo into it.
#include <torch/torch.h>

#include <cstdio>

using namespace torch::nn;

constexpr int64_t noise_size = 16, batch_size = 32;

struct GeneratorImpl : Module {
  GeneratorImpl() : deconv1(ConvTranspose2dOptions(noise_size, 32, 4).bias(false)), norm1(32),
                    deconv2(ConvTranspose2dOptions(32, 1, 4).stride(2).padding(1)) {
    register_module("deconv1", deconv1);
    register_module("norm1", norm1);
    register_module("deconv2", deconv2);
  }
  torch::Tensor forward(torch::Tensor x) { return torch::tanh(deconv2(torch::relu(norm1(deconv1(x))))); }
  ConvTranspose2d deconv1;
  BatchNorm2d norm1;
  ConvTranspose2d deconv2;
};
TORCH_MODULE(Generator);

struct DiscriminatorImpl : Module {
  DiscriminatorImpl() : conv1(Conv2dOptions(1, 16, 4).stride(2).padding(1)), conv2(Conv2dOptions(16, 1, 4)) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
  }
  torch::Tensor forward(torch::Tensor x) { return torch::sigmoid(conv2(torch::leaky_relu(conv1(x), 0.2))).flatten(); }
  Conv2d conv1, conv2;
};
TORCH_MODULE(Discriminator);

torch::Tensor judged(DiscriminatorImpl &discriminator, const torch::Tensor &pictures, double label) {
  const auto found = discriminator.forward(pictures);
  return torch::binary_cross_entropy(found, torch::full_like(found, label));
}

// Pictures are to be found real, and what the generator has made is not.
torch::Tensor both_judged(DiscriminatorImpl &discriminator, const torch::Tensor &pictures, const torch::Tensor &made) {
  return judged(discriminator, pictures, 0.9) + judged(discriminator, made.detach(), 0);
}

int main() {
  torch::manual_seed(1);
  Generator generator;
  Discriminator discriminator;
  torch::optim::Adam generator_optimizer(generator->parameters(), torch::optim::AdamOptions(2e-4).betas({0.5, 0.999}));
  torch::optim::Adam discriminator_optimizer(discriminator->parameters(), torch::optim::AdamOptions(2e-4).betas({0.5, 0.999}));

  torch::manual_seed(2); // of pictures and noise
  double discriminator_loss = 0, generator_loss = 0;
  for (int step = 0; step < 60; ++step) {
    // Pictures have a bright left half.
    auto pictures = 0.1 * torch::randn({batch_size, 1, 8, 8});
    pictures.slice(3, 0, 4) += 0.8;
    auto noise = torch::randn({batch_size, noise_size, 1, 1});

    discriminator_optimizer.zero_grad();
    auto d_loss = both_judged(*discriminator, pictures, generator->forward(noise));
    d_loss.backward();
    discriminator_optimizer.step();

    generator_optimizer.zero_grad();
    auto g_loss = judged(*discriminator, generator->forward(noise), 1);
    g_loss.backward();
    generator_optimizer.step();

    discriminator_loss = 0.9 * discriminator_loss + 0.1 * d_loss.item<double>();
    generator_loss = 0.9 * generator_loss + 0.1 * g_loss.item<double>();
  }
  std::printf("discriminator %.4f, generator %.4f\n", discriminator_loss, generator_loss);
}
