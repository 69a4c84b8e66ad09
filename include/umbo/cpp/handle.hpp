// Ownership of a reference to a handle.
#ifndef UMBO_CPP_HANDLE_HPP
#define UMBO_CPP_HANDLE_HPP

#include <utility>

#include <umbo/cpp/result.hpp>

UMBO_DETAIL_BEGIN
namespace detail {

// How references to a kind of handle are made and given back.
template <class Raw>
struct references;

#define UMBO_DETAIL_REFERENCES(noun)                                            \
    template <>                                                                 \
    struct references<umbo_##noun> {                                            \
        static umbo_##noun *another(umbo_##noun *raw) {                         \
            umbo_##noun *out = nullptr;                                         \
            require(umbo_##noun##_retain(raw, &out));                           \
            return out;                                                         \
        }                                                                       \
        static void give_back(umbo_##noun *raw) noexcept { umbo_##noun##_release(raw); } \
    }

UMBO_DETAIL_REFERENCES(tensor);
UMBO_DETAIL_REFERENCES(value);
UMBO_DETAIL_REFERENCES(strategy);
UMBO_DETAIL_REFERENCES(variable);
UMBO_DETAIL_REFERENCES(dataset);
UMBO_DETAIL_REFERENCES(iterator);
UMBO_DETAIL_REFERENCES(gradients);
UMBO_DETAIL_REFERENCES(optimizer);
UMBO_DETAIL_REFERENCES(cancellation);
UMBO_DETAIL_REFERENCES(cluster_resolver);
UMBO_DETAIL_REFERENCES(distributed_dataset);
UMBO_DETAIL_REFERENCES(element_spec);
UMBO_DETAIL_REFERENCES(equivalence);
UMBO_DETAIL_REFERENCES(metrics);
UMBO_DETAIL_REFERENCES(checkpoint);
UMBO_DETAIL_REFERENCES(checkpoint_manager);
UMBO_DETAIL_REFERENCES(communicator);
UMBO_DETAIL_REFERENCES(trainer);

#undef UMBO_DETAIL_REFERENCES

} // namespace detail

// Owns a handle, or nothing. A copy owns another handle to the same object; copying what a callable
// is given is how it keeps it. As thread-safe as a `std::shared_ptr`: several threads may use several
// owners of one object.
template <class Raw>
class handle {
public:
    using raw_type = Raw;

    handle() noexcept = default;

    // Takes over the reference.
    explicit handle(Raw *raw) noexcept : raw_(raw) {}

    handle(const handle &other)
        : raw_(other.raw_ == nullptr ? nullptr : detail::references<Raw>::another(other.raw_)) {}

    handle(handle &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}

    handle &operator=(handle other) noexcept {
        std::swap(raw_, other.raw_);
        return *this;
    }

    ~handle() {
        if (raw_ != nullptr) detail::references<Raw>::give_back(raw_);
    }

    // Lends the handle; NULL when empty.
    Raw *get() const noexcept { return raw_; }

    // Gives the reference up to the caller.
    [[nodiscard]] Raw *release() noexcept { return std::exchange(raw_, nullptr); }

    explicit operator bool() const noexcept { return raw_ != nullptr; }

protected:
    // For functions that put another handle in the place of this one.
    Raw **place() noexcept { return &raw_; }

private:
    Raw *raw_ = nullptr;
};

namespace detail {

// An owner's interface to a handle that is only lent, as callbacks get them.
template <class Owner>
class borrowed {
public:
    explicit borrowed(typename Owner::raw_type *raw) noexcept : owner_(raw) {}
    borrowed(const borrowed &) = delete;
    borrowed &operator=(const borrowed &) = delete;
    ~borrowed() { static_cast<void>(owner_.release()); }

    Owner &operator*() noexcept { return owner_; }

private:
    Owner owner_;
};

} // namespace detail
UMBO_DETAIL_END

#endif
