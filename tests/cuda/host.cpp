// The kernels as ordinary functions: one thread of one block after the other, and where a kernel
// has barriers, all threads of a block in turn.
#include <cstring>
#include <cstddef>
#include <memory>
#include <utility>
#include <ucontext.h>

#include "umbo.cu"

namespace {

thread_local u32 this_thread, this_block;

// The threads of one block, each on a stack of its own.
struct Block {
    struct Thread {
        ucontext_t context;
        bool done;
    };
    static constexpr size_t STACK = 64 << 10;
    ucontext_t scheduler;
    Thread threads[THREADS];
    std::unique_ptr<char[]> stacks{new char[THREADS * STACK]};
    void (*call)(void **);
    void **arguments;

    static Block *current(Block *set = nullptr) {
        static thread_local Block *block;
        if (set) {
            block = set;
        }
        return block;
    }

    static void enter() {
        Block *block = current();
        block->call(block->arguments);
        block->threads[this_thread].done = true;
    }

    void run() {
        current(this);
        for (u32 thread = 0; thread < THREADS; thread++) {
            Thread &own = threads[thread];
            own.done = false;
            getcontext(&own.context);
            own.context.uc_stack.ss_sp = stacks.get() + thread * STACK;
            own.context.uc_stack.ss_size = STACK;
            own.context.uc_link = &scheduler;
            makecontext(&own.context, &Block::enter, 0);
        }
        for (bool busy = true; busy;) {
            busy = false;
            // Another order at every barrier, for what is missing one to show.
            static thread_local u32 turn;
            turn++;
            for (u32 position = 0; position < THREADS; position++) {
                u32 thread = turn % 2 ? position : THREADS - 1 - position;
                if (!threads[thread].done) {
                    this_thread = thread;
                    swapcontext(&scheduler, &threads[thread].context);
                    busy = true;
                }
            }
        }
    }
};

template <class... A, size_t... I>
void unpack(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A *>(arguments[I])...);
}
template <class... A> void unpack(void (*kernel)(A...), void **arguments) {
    unpack(kernel, arguments, std::index_sequence_for<A...>{});
}

struct Kernel {
    const char *name;
    bool has_barriers;
    void (*call)(void **);
};

const Kernel KERNELS[] = {
#define CALL(name, has_barriers)                                                                 \
    {#name, has_barriers, [](void **arguments) { unpack(&name, arguments); }},
#include "umbo.inc"
};

} // namespace

u32 thread_number() { return this_thread; }
u32 block_number() { return this_block; }
void barrier() {
    Block *block = Block::current();
    u32 thread = this_thread;
    swapcontext(&block->threads[thread].context, &block->scheduler);
    this_thread = thread;
}

// Runs a kernel. Returns whether there is one of this name.
extern "C" bool host_launch(const char *name, u32 blocks, void **arguments) {
    for (const Kernel &kernel : KERNELS) {
        if (std::strcmp(kernel.name, name) != 0) {
            continue;
        }
        std::unique_ptr<Block> block;
        if (kernel.has_barriers) {
            block.reset(new Block());
            block->call = kernel.call;
            block->arguments = arguments;
        }
        for (this_block = 0; this_block < blocks; this_block++) {
            if (block) {
                block->run();
                continue;
            }
            for (this_thread = 0; this_thread < THREADS; this_thread++) {
                kernel.call(arguments);
            }
        }
        return true;
    }
    return false;
}
