// Checkpoints: saving what training needs, and going on from it.
#ifndef UMBO_CPP_CHECKPOINT_HPP
#define UMBO_CPP_CHECKPOINT_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/dataset.hpp>
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

    // How far its pass has come.
    returned<void> add(const std::string &name, const iterator &saved) const {
        return check(umbo_checkpoint_add_iterator(get(), name.c_str(), saved.get()));
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

    // UTF-8 of at most 1,048,576 bytes.
    returned<void> set_string(const std::string &name, const std::string &string) const {
        return check(umbo_checkpoint_set_string(get(), name.c_str(), string.c_str()));
    }

    returned<std::string> string(const std::string &name) const {
        return detail::text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return umbo_checkpoint_string(get(), name.c_str(), buffer, capacity, length);
        });
    }

    // From a file of which nothing else is read.
    static returned<std::string> read_string(const std::string &path, const std::string &name) {
        return detail::text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return umbo_checkpoint_read_string(path.c_str(), name.c_str(), buffer, capacity, length);
        });
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
        return check(umbo_checkpoint_load_weights(get(), path.c_str(), 0, nullptr, nullptr));
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
        return check(umbo_checkpoint_load_weights(get(), path.c_str(), detail::count_of(pairs.size()),
                                                  names.data(), tensors.data()));
    }
};

// Keeps the checkpoints of a training in a folder.
class checkpoint_manager : public handle<umbo_checkpoint_manager> {
public:
    using handle::handle;

    static returned<checkpoint_manager> create(const checkpoint &of, const std::string &folder,
                                               const checkpoint_manager_options &how = {}) {
        const auto options = detail::raw_options(how);
        umbo_checkpoint_manager *out = nullptr;
        UMBO_DETAIL_TRY(umbo_checkpoint_manager_create(of.get(), folder.c_str(), &options, &out));
        return checkpoint_manager(out);
    }

    // If one is due, or in any case; whether it was saved. The best are the best by `metric`.
    returned<bool> save(std::int64_t step, const std::optional<double> &metric = {},
                        bool force = false) const {
        std::int32_t out = 0;
        const double *const number = metric ? &*metric : nullptr;
        UMBO_DETAIL_TRY(umbo_checkpoint_manager_save(get(), step, number, force ? 1 : 0, &out));
        return out != 0;
    }

    // A metric is a number: `save(step, {}, true)` saves in any case.
    template <class Flag, std::enable_if_t<std::is_same_v<Flag, bool>, int> = 0>
    returned<bool> save(std::int64_t step, Flag metric, bool force = false) const = delete;

    // Until all are on the disk.
    returned<void> wait() const { return check(umbo_checkpoint_manager_wait(get())); }

    // The step, or UMBO_NONE.
    returned<std::int64_t> restore_latest() const {
        return step_of<umbo_checkpoint_manager *>(&umbo_checkpoint_manager_restore_latest);
    }

    // The step, or UMBO_NONE.
    returned<std::int64_t> restore_best() const {
        return step_of<umbo_checkpoint_manager *>(&umbo_checkpoint_manager_restore_best);
    }

    returned<std::int64_t> latest() const {
        return step_of<const umbo_checkpoint_manager *>(&umbo_checkpoint_manager_latest);
    }

    returned<std::int64_t> best() const {
        return step_of<const umbo_checkpoint_manager *>(&umbo_checkpoint_manager_best);
    }

    // Where the checkpoint of a step is, or would be.
    returned<std::string> path(std::int64_t step) const {
        std::string out(4096 + 64, '\0');
        std::size_t length = 0;
        UMBO_DETAIL_TRY(umbo_checkpoint_manager_path(get(), step, &out[0], out.size(), &length));
        out.resize(length);
        return out;
    }

private:
    template <class Raw>
    returned<std::int64_t> step_of(umbo_status (*ask)(Raw, std::int64_t *)) const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(ask(get(), &out));
        return out;
    }
};

UMBO_DETAIL_END

#endif
