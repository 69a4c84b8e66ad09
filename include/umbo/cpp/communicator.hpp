// What joins the processes of a training: it moves bytes from each to each.
#ifndef UMBO_CPP_COMMUNICATOR_HPP
#define UMBO_CPP_COMMUNICATOR_HPP

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
    static umbo_status all_to_all(const void *send, const std::int64_t *send_counts, void *receive,
                                  const std::int64_t *receive_counts, void *engine) noexcept {
        return guarded([&]() -> returned<void> {
            auto moved = [&] {
                return static_cast<Engine *>(engine)->all_to_all(send, send_counts, receive, receive_counts);
            };
            return call(moved);
        });
    }

    static umbo_status all_gather(const void *send, void *receive, const std::int64_t *counts,
                                  void *engine) noexcept {
        return guarded([&]() -> returned<void> {
            auto moved = [&] { return static_cast<Engine *>(engine)->all_gather(send, receive, counts); };
            return call(moved);
        });
    }
};

} // namespace detail

// Where a process stands among those of a training.
struct communicator_place {
    std::int64_t rank = 0;
    std::int64_t size = 1;
    std::int64_t node_rank = 0; // among the ranks of its machine
    std::int64_t node_size = 1; // how many of them there are
};

// How a communicator over MPI is made.
struct mpi_options {
    double timeout_seconds = 600;              // how long a call waits; UMBO_INFINITE: for ever
    std::string library = {};                  // to be opened; "": the one that is found
    std::int64_t longest_message = 1073741824; // in bytes; more go in several
};

// How a communicator over NCCL is made.
struct nccl_options {
    double timeout_seconds = 300; // how long a call waits for NCCL; UMBO_INFINITE: for ever
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

    // Of an engine with the member functions `all_to_all(send, send_counts, receive, receive_counts)`
    // and `all_gather(send, receive, counts)` on addresses and counts of bytes; all else is made of
    // these. It is called on the thread that is here, unless `flags` has UMBO_COMMUNICATOR_ANY_THREAD.
    template <class Engine>
    static returned<communicator> create(const communicator_place &place, Engine engine,
                                         std::int64_t flags = 0) {
        umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
        functions.flags = flags;
        functions.rank = place.rank;
        functions.size = place.size;
        functions.node_rank = place.node_rank;
        functions.node_size = place.node_size;
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

    // All processes that were started together, over an MPI that is found at run time.
    static returned<communicator> mpi_world(const mpi_options &how = {}) {
        const auto options = raw(how);
        umbo_communicator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_communicator_create_mpi_world(&options, &out));
        return communicator(out);
    }

    // The ranks of an MPI_Comm of an MPI with the standard ABI.
    static returned<communicator> mpi(void *mpi_communicator, const mpi_options &how = {}) {
        const auto options = raw(how);
        umbo_communicator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_communicator_create_mpi(mpi_communicator, &options, &out));
        return communicator(out);
    }

    // The same of an MPI whose functions the program brings; umbo_mpi.c does so for any mpi.h.
    static returned<communicator> mpi_of(void *mpi_communicator, umbo_mpi_find_fn find, void *user_data,
                                         const mpi_options &how = {}) {
        const auto options = raw(how);
        umbo_communicator *out = nullptr;
        UMBO_DETAIL_TRY(
            umbo_communicator_create_mpi_of(mpi_communicator, find, user_data, &options, &out));
        return communicator(out);
    }

    // The ranks of `base`, over which memory of the host goes; that of GPUs goes over an NCCL that is found at run
    // time. `device` is the GPU of this rank's variables.
    static returned<communicator> nccl(const communicator &base, const std::string &device,
                                       const nccl_options &how = {}) {
        umbo_nccl_options options = UMBO_NCCL_OPTIONS_INIT;
        options.timeout_seconds = how.timeout_seconds;
        options.library = how.library.empty() ? nullptr : how.library.c_str();
        umbo_communicator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_communicator_create_nccl(base.get(), device.c_str(), &options, &out));
        return communicator(out);
    }

    returned<communicator_place> place() const {
        auto found = detail::sized<umbo_communicator_info>();
        UMBO_DETAIL_TRY(umbo_communicator_get_info(get(), &found));
        communicator_place out;
        out.rank = found.rank;
        out.size = found.size;
        out.node_rank = found.node_rank;
        out.node_size = found.node_size;
        return out;
    }

    // Parts lie one behind the other in the order of the ranks; counts are bytes, one for each rank.
    returned<void> all_to_all(const void *send, const std::vector<std::int64_t> &send_counts, void *receive,
                              const std::vector<std::int64_t> &receive_counts) const {
        UMBO_DETAIL_LET(here, place());
        const auto size = static_cast<std::size_t>(here.size);
        if (send_counts.size() != size || receive_counts.size() != size) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "counts: one for each rank is expected");
        }
        return check(umbo_communicator_all_to_all(get(), send, send_counts.data(), receive,
                                                  receive_counts.data()));
    }

    returned<void> all_gather(const void *send, void *receive, const std::vector<std::int64_t> &counts) const {
        UMBO_DETAIL_LET(here, place());
        if (counts.size() != static_cast<std::size_t>(here.size)) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "counts: one for each rank is expected");
        }
        return check(umbo_communicator_all_gather(get(), send, receive, counts.data()));
    }

    returned<void> broadcast(void *data, std::int64_t bytes, std::int64_t root) const {
        return check(umbo_communicator_broadcast(get(), data, bytes, root));
    }

    returned<ballot> vote(std::int64_t number) const {
        ballot found;
        UMBO_DETAIL_TRY(umbo_communicator_vote(get(), number, &found.least, &found.greatest));
        return found;
    }

    returned<void> barrier() const { return check(umbo_communicator_barrier(get())); }

    // Tells the other ranks that this one cannot go on; may end the process.
    returned<void> abort(const std::string &message) const {
        return check(umbo_communicator_abort(get(), message.c_str()));
    }

private:
    // Lives no longer than `how`.
    static umbo_mpi_options raw(const mpi_options &how) {
        umbo_mpi_options options = UMBO_MPI_OPTIONS_INIT;
        options.timeout_seconds = how.timeout_seconds;
        options.library = how.library.empty() ? nullptr : how.library.c_str();
        options.longest_message = how.longest_message;
        return options;
    }
};

UMBO_DETAIL_END

#endif
