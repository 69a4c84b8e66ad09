// All that is tested with LibTorch in one program: its headers take longer to compile than what includes them. The first
// argument names the example, or the loop of docs/loop.md before or after its patch; without one, or with `gpus`, it is the
// test.
#define main test
#include "test_torch.cpp"
#undef main

// What they include, outside of their namespaces.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace example {
#define main run
#include "../../c_examples/engines/torch.cpp"
#undef main
} // namespace example

#ifdef UMBO_LOOP
namespace before {
#include "before.cpp"
} // namespace before

namespace after {
#include "after.cpp"
} // namespace after
#endif

int main(int count, char **words) {
    const std::string what = count > 1 ? words[1] : "test";
    if (what == "example") return example::run(count - 1, words + 1);
#ifdef UMBO_LOOP
    if (what == "before") return before::run(), 0;
    if (what == "after") return after::run(), 0;
#endif
    return what == "test" || what == "gpus" ? test(count, words) : 2;
}
