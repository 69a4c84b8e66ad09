// What joins the processes of a training: it moves bytes from each to each.
#ifndef UMBO_CPP_COMMUNICATOR_HPP
#define UMBO_CPP_COMMUNICATOR_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <umbo/cpp/callback.hpp>
#include <umbo/cpp/handle.hpp>

UMBO_DETAIL_BEGIN
namespace detail {

// The member functions of an engine as functions of C.
template <class Engine>
struct engine_functions {
    static umbo_status all_to_all(const std::size_t *send_bytes, const void *send,
                                  const std::size_t *receive_bytes, void *engine, void *receive) noexcept {
        return guarded([&]() -> returned<void> {
            auto moved = [&] {
                return static_cast<Engine *>(engine)->all_to_all(send_bytes, send, receive_bytes, receive);
            };
            return call(moved);
        });
    }

    static umbo_status all_gather(const std::size_t *bytes, const void *send, void *engine,
                                  void *receive) noexcept {
        return guarded([&]() -> returned<void> {
            auto moved = [&] { return static_cast<Engine *>(engine)->all_gather(bytes, send, receive); };
            return call(moved);
        });
    }
};

} // namespace detail

// The place of a process among the ranks.
struct communicator_info {
    std::int64_t rank = 0;
    std::int64_t rank_count = 1;
    std::int64_t node_rank = 0;       // among the ranks of its machine
    std::int64_t node_rank_count = 1; // how many of them there are
};

// How a communicator over MPI is made.
struct mpi_options {
    double timeout_seconds = 600;               // how long a call waits; UMBO_INFINITE: without limit
    std::string library = {};                   // to be opened; "": the one that is found
    std::size_t max_message_bytes = 1073741824; // more go in several messages
    umbo_mpi_find_fn find = nullptr;            // finds the functions of an MPI of the program
    void *find_user_data = nullptr;
};

// How a communicator over NCCL is made.
struct nccl_options {
    double timeout_seconds = 300; // how long a call waits for NCCL; UMBO_INFINITE: without limit
    std::string library = {};     // to be opened; "": the one that is found
};

// The least and the greatest of the ranks' numbers.
struct ballot {
    std::int64_t least = 0;
    std::int64_t greatest = 0;
};

// One rank's part in moving bytes. All ranks make the same calls in the same order. An empty one stands
// for "none".
class communicator : public handle<umbo_communicator> {
public:
    using handle::handle;

    // Of an engine with the member functions `all_to_all(send_bytes, send, receive_bytes, receive)`
    // and `all_gather(bytes, send, receive)` on addresses and sizes; all else is made of
    // these. It is called on the thread that is here, unless `flags` has UMBO_COMMUNICATOR_ANY_THREAD.
    template <class Engine>
    static returned<communicator> create(const communicator_info &place, Engine engine,
                                         std::int64_t flags = 0) {
        umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
        functions.flags = flags;
        functions.rank = place.rank;
        functions.rank_count = place.rank_count;
        functions.node_rank = place.node_rank;
        functions.node_rank_count = place.node_rank_count;
        functions.all_to_all = &detail::engine_functions<Engine>::all_to_all;
        functions.all_gather = &detail::engine_functions<Engine>::all_gather;
        auto kept = std::make_unique<Engine>(std::move(engine));
        return create(functions, kept.release(), &detail::destroy_callable<Engine>);
    }

    // Of functions of C.
    static returned<communicator> create(const umbo_communicator_functions &functions, void *user_data,
                                         umbo_destroy_fn destroy) {
        umbo_communicator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_communicator_create(&functions, user_data, destroy, &out));
        return communicator(out);
    }

    // All processes that were started together, over an MPI that is found at run time; or the ranks of an
    // MPI_Comm of an MPI with the standard ABI, or as `find` of the options takes it. umbo_mpi.c sets that for any
    // mpi.h.
    static returned<communicator> create_mpi(void *mpi_communicator = nullptr, const mpi_options &how = {}) {
        umbo_mpi_options options = UMBO_MPI_OPTIONS_INIT;
        options.timeout_seconds = how.timeout_seconds;
        options.library = how.library.empty() ? nullptr : how.library.c_str();
        options.max_message_bytes = how.max_message_bytes;
        options.find = how.find;
        options.find_user_data = how.find_user_data;
        umbo_communicator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_communicator_create_mpi(mpi_communicator, &options, &out));
        return communicator(out);
    }

    // The ranks of `base`, over which memory of the host goes; that of GPUs goes over an NCCL that is found at run
    // time. `device` is the GPU of this rank's variables.
    static returned<communicator> create_nccl(const communicator &base, const std::string &device,
                                              const nccl_options &how = {}) {
        umbo_nccl_options options = UMBO_NCCL_OPTIONS_INIT;
        options.timeout_seconds = how.timeout_seconds;
        options.library = how.library.empty() ? nullptr : how.library.c_str();
        umbo_communicator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_communicator_create_nccl(base.get(), device.c_str(), &options, &out));
        return communicator(out);
    }

    returned<communicator_info> info() const {
        umbo_communicator_info found = UMBO_COMMUNICATOR_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_communicator_get_info(get(), &found));
        communicator_info out;
        out.rank = found.rank;
        out.rank_count = found.rank_count;
        out.node_rank = found.node_rank;
        out.node_rank_count = found.node_rank_count;
        return out;
    }

    // Parts lie one after the other in the order of the ranks; there is a size for each rank.
    returned<void> all_to_all(span<const std::size_t> send_bytes, const void *send,
                              span<const std::size_t> receive_bytes, void *receive) const {
        UMBO_DETAIL_LET(here, info());
        const auto count = static_cast<std::size_t>(here.rank_count);
        if (send_bytes.size() != count || receive_bytes.size() != count) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "bytes: one size for each rank is expected");
        }
        return check(umbo_communicator_all_to_all(get(), send_bytes.data(), send, receive_bytes.data(), receive));
    }

    returned<void> all_gather(span<const std::size_t> bytes, const void *send, void *receive) const {
        UMBO_DETAIL_LET(here, info());
        if (bytes.size() != static_cast<std::size_t>(here.rank_count)) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "bytes: one size for each rank is expected");
        }
        return check(umbo_communicator_all_gather(get(), bytes.data(), send, receive));
    }

    returned<void> broadcast(std::int64_t root, std::size_t bytes, void *data) const {
        return check(umbo_communicator_broadcast(get(), root, bytes, data));
    }

    returned<ballot> vote(std::int64_t number) const {
        ballot found;
        UMBO_DETAIL_TRY(umbo_communicator_vote(get(), number, &found.least, &found.greatest));
        return found;
    }

    returned<void> barrier() const { return check(umbo_communicator_barrier(get())); }

    // Announces to the other ranks that this one cannot continue; may end the process.
    returned<void> abort(const std::string &message) const {
        return check(umbo_communicator_abort(get(), message.c_str()));
    }
};

UMBO_DETAIL_END

#endif
