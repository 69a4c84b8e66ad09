// Communicators of engines that are C++ objects.
#include <umbo/umbo.hpp>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "../c/check.h"

namespace {

// A rank alone; it counts how many of it there are.
struct engine {
    static int alive;
    bool fails = false;

    explicit engine(bool fails_) : fails(fails_) { ++alive; }
    engine(const engine &other) : fails(other.fails) { ++alive; }
    ~engine() { --alive; }

    void all_to_all(const std::size_t *send_bytes, const void *send, const std::size_t *, void *receive) {
        if (fails) throw std::runtime_error("the wire is cut");
        if (send_bytes[0] > 0) std::memcpy(receive, send, send_bytes[0]);
    }

    void all_gather(const std::size_t *bytes, const void *send, void *receive) {
        all_to_all(bytes, send, bytes, receive);
    }
};

int engine::alive = 0;

void moves() {
    const auto communicator = umbo::communicator::create({}, engine(false));
    const auto place = communicator.info();
    CHECK(place.rank == 0 && place.rank_count == 1 && place.node_rank == 0 && place.node_rank_count == 1);
    const double sent = 3;
    double received = 0;
    const std::vector<std::size_t> bytes{sizeof(sent)};
    communicator.all_to_all(bytes, &sent, bytes, &received);
    CHECK(received == 3);
    received = 0;
    communicator.all_gather(bytes, &sent, &received);
    CHECK(received == 3);
    communicator.broadcast(0, sizeof(received), &received);
    const auto vote = communicator.vote(-4);
    CHECK(vote.least == -4 && vote.greatest == -4);
    communicator.barrier();
    try {
        communicator.all_gather({}, &sent, &received);
        CHECK(!"no sizes");
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
    communicator.abort("the end");
}

void fails() {
    const auto communicator = umbo::communicator::create({}, engine(true));
    try {
        communicator.barrier();
        CHECK(!"it throws");
    } catch (const std::runtime_error &thrown) {
        CHECK(std::string(thrown.what()) == "the wire is cut"); // as it was thrown
    }
    try {
        communicator.barrier();
        CHECK(!"it is of no further use");
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::unavailable);
    }
}

void is_refused() {
    umbo::communicator_info place;
    place.rank = 1;
    try {
        umbo::communicator::create(place, engine(false));
        CHECK(!"rank 1 of 1");
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
}

// What MPI is asked before there is one.
void mpi_is_checked() {
    umbo::mpi_options options;
    const auto status_of = [](auto &&make) {
        try {
            make();
        } catch (const umbo::error &error) {
            return error.status();
        }
        return umbo::status::ok;
    };
    options.library = "none.so";
    CHECK(status_of([&] { umbo::communicator::create_mpi(nullptr, options); }) == umbo::status::unavailable);
    CHECK_MESSAGE("none.so");
    CHECK(status_of([&] { umbo::communicator::create_mpi(&options, options); }) == umbo::status::unavailable);
    options.find = [](const char *, void *) -> void * { return nullptr; };
    CHECK(status_of([&] { umbo::communicator::create_mpi(&options, options); }) == umbo::status::unavailable);
    CHECK_MESSAGE("the program's MPI has no function MPI_Initialized");
    CHECK(status_of([&] { umbo::communicator::create_mpi(nullptr, options); }) == umbo::status::invalid_argument);
    CHECK_MESSAGE("mpi_communicator");
    options.find = nullptr;
    options.max_message_bytes = 0;
    CHECK(status_of([&] { umbo::communicator::create_mpi(nullptr, options); }) == umbo::status::invalid_argument);
    CHECK_MESSAGE("options.max_message_bytes: 0");
    options.max_message_bytes = 1;
    options.timeout_seconds = 0;
    CHECK(status_of([&] { umbo::communicator::create_mpi(nullptr, options); }) == umbo::status::invalid_argument);
    CHECK_MESSAGE("options.timeout_seconds: 0");
}

// What NCCL is asked before there is one. The rank is alone, so that it is also the one that is named.
void nccl_is_checked() {
    const auto base = umbo::communicator::create({}, engine(false));
    umbo::nccl_options options;
    options.library = "none.so";
    const auto status_of = [&](const char *device) {
        try {
            umbo::communicator::create_nccl(base, device, options);
        } catch (const umbo::error &error) {
            return error.status();
        }
        return umbo::status::ok;
    };
    CHECK(status_of("CPU:0") == umbo::status::invalid_argument);
    CHECK_MESSAGE("rank 0: device: CPU:0");
    CHECK(status_of("GPU:1000") != umbo::status::ok);
    options.timeout_seconds = 0;
    CHECK(status_of("CPU:0") == umbo::status::invalid_argument);
    CHECK_MESSAGE("options.timeout_seconds: 0");
    base.barrier(); // it is of use as before
}

} // namespace

int main() {
    moves();
    fails();
    is_refused();
    mpi_is_checked();
    nccl_is_checked();
    CHECK(engine::alive == 0);
    return finish();
}
