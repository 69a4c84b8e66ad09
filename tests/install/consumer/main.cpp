#include <cstring>
#include <iostream>
#include <umbo/umbo.hpp>

int main() {
  if (std::strcmp(umbo_version(), EXPECTED_VERSION) != 0) {
    std::cerr << "the library is " << umbo_version() << ", its package says " << EXPECTED_VERSION
              << "\n";
    return 1;
  }
  return 0;
}
