// Checkpoints: saving what training needs, and going on from it.
#ifndef UMBO_CPP_CHECKPOINT_HPP
#define UMBO_CPP_CHECKPOINT_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <umbo/cpp/metrics.hpp>
#include <umbo/cpp/optimizer.hpp>

UMBO_DETAIL_BEGIN

// Objects of one strategy that are saved and restored together, by name.
class checkpoint : public handle<umbo_checkpoint> {
public:
    using handle::handle;

    static returned<checkpoint> create(const strategy &of) {
        umbo_checkpoint *out = nullptr;
        UMBO_DETAIL_TRY(umbo_checkpoint_create(of.get(), &out));
        return checkpoint(out);
    }

    // By its own name.
    returned<void> add(const variable &saved) const {
        return check(umbo_checkpoint_add_variable(get(), nullptr, saved.get()));
    }

    returned<void> add(const std::string &name, const variable &saved) const {
        return check(umbo_checkpoint_add_variable(get(), name.c_str(), saved.get()));
    }

    returned<void> add(const std::string &name, const optimizer &saved) const {
        return check(umbo_checkpoint_add_optimizer(get(), name.c_str(), saved.get()));
    }

    returned<void> add(const std::string &name, const gradients &saved) const {
        return check(umbo_checkpoint_add_gradients(get(), name.c_str(), saved.get()));
    }

    returned<void> add(const std::string &name, const metrics &saved) const {
        return check(umbo_checkpoint_add_metrics(get(), name.c_str(), saved.get()));
    }

    // It is restored in place: nobody uses it meanwhile.
    returned<void> add(const std::string &name, const tensor &saved) const {
        return check(umbo_checkpoint_add_tensor(get(), name.c_str(), saved.get()));
    }

    returned<void> set_number(const std::string &name, double number) const {
        return check(umbo_checkpoint_set_number(get(), name.c_str(), number));
    }

    returned<void> set_integer(const std::string &name, std::int64_t integer) const {
        return check(umbo_checkpoint_set_integer(get(), name.c_str(), integer));
    }

    returned<double> number(const std::string &name) const {
        double out = 0;
        UMBO_DETAIL_TRY(umbo_checkpoint_number(get(), name.c_str(), &out));
        return out;
    }

    returned<std::int64_t> integer(const std::string &name) const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_checkpoint_integer(get(), name.c_str(), &out));
        return out;
    }

    returned<void> save(const std::string &path) const {
        return check(umbo_checkpoint_save(get(), path.c_str()));
    }

    // All of it, or nothing.
    returned<void> restore(const std::string &path) const {
        return check(umbo_checkpoint_restore(get(), path.c_str()));
    }

    // The variables alone.
    returned<void> save_weights(const std::string &path) const {
        return check(umbo_checkpoint_save_weights(get(), path.c_str()));
    }

    // All variables, from tensors of the same names.
    returned<void> load_weights(const std::string &path) const {
        return check(umbo_checkpoint_load_weights(get(), path.c_str(), nullptr, nullptr, 0));
    }

    // Some variables, by the names by which they were added, and for each its tensor in the file.
    returned<void> load_weights(const std::string &path,
                                const std::vector<std::pair<std::string, std::string>> &pairs) const {
        // Not NULL where there are none: that would be all.
        std::vector<const char *> names(pairs.size() + 1), tensors(pairs.size() + 1);
        for (std::size_t index = 0; index < pairs.size(); index++) {
            names[index] = pairs[index].first.c_str();
            tensors[index] = pairs[index].second.c_str();
        }
        return check(umbo_checkpoint_load_weights(get(), path.c_str(), names.data(), tensors.data(),
                                                  detail::count_of(pairs.size())));
    }
};

UMBO_DETAIL_END

#endif
