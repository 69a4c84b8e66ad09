// Checkpoints: saving what training needs, and resuming from it.
#ifndef UMBO_CPP_CHECKPOINT_HPP
#define UMBO_CPP_CHECKPOINT_HPP

#include <cstddef>
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

// How weights are saved; see umbo_save_weights_options.
struct save_weights_options {
    umbo::dtype float_dtype = umbo::dtype::none; // none: each as it is
    std::size_t max_file_bytes = 0;
};

// The weights that are loaded, and from which tensors; see umbo_load_weights_options.
struct load_weights_options {
    bool convert_floats = false;
    bool allow_missing = false;
    std::string prefix = {};
    // The name of the variable that a tensor is for; none if it is empty. A failure fails the load.
    shared_function<returned<std::string>(const std::string &tensor)> map_name = {};
    // Variables, each with its tensor in the file; none: all variables. With `map_name` the names of the tensors are ignored.
    std::vector<std::pair<std::string, std::string>> pairs = {};
};

// What a load has done, by names.
struct loaded_weights {
    std::vector<std::pair<std::string, std::string>> loaded = {}; // variables and their tensors
    std::vector<std::string> missing = {};                        // variables that the file has no tensor for
    std::vector<std::string> unused = {};                         // tensors of the file
};

namespace detail {

inline umbo_save_weights_options to_c(const save_weights_options &how) {
    umbo_save_weights_options raw = UMBO_SAVE_WEIGHTS_OPTIONS_INIT;
    raw.float_dtype = to_c(how.float_dtype);
    raw.max_file_bytes = how.max_file_bytes;
    return raw;
}

// The bytes that a function writes into room that is large enough.
template <class Write>
returned<std::vector<std::uint8_t>> bytes_of(Write write) {
    std::vector<std::uint8_t> bytes;
    std::size_t size = 0;
    umbo_status status = write(nullptr, 0, &size);
    // A step of another thread may have changed how many they are.
    while (status == UMBO_STATUS_OUT_OF_RANGE && size > bytes.size()) {
        bytes.resize(size);
        status = write(bytes.data(), bytes.size(), &size);
    }
    UMBO_DETAIL_TRY(status);
    bytes.resize(size);
    return bytes;
}

// The bytes that are there, in whatever type of one byte.
template <class Bytes>
auto all_bytes_of(const Bytes &bytes) {
    static_assert(sizeof(*std::data(bytes)) == 1 && std::is_trivially_copyable_v<std::decay_t<decltype(*std::data(bytes))>>,
                  "a checkpoint in memory is an array of bytes");
    return elements_of(bytes);
}

struct name_map {
    const shared_function<returned<std::string>(const std::string &)> &function;
    std::string name; // lives until the next call
};

inline umbo_status map_name_trampoline(const char *tensor, void *user_data, const char **variable) noexcept {
    return guarded([&]() -> returned<void> {
        auto &map = *static_cast<name_map *>(user_data);
        UMBO_DETAIL_LET(name, map.function(tensor));
        map.name = std::move(name);
        if (!map.name.empty()) *variable = map.name.c_str();
        return done();
    });
}

struct weight_report {
    loaded_weights weights;
    bool is_complete = true;

    static void note(const char *variable, const char *tensor, void *user_data) noexcept {
        auto &report = *static_cast<weight_report *>(user_data);
        const umbo_status status = guarded([&]() -> returned<void> {
            auto &names = report.weights;
            if (variable == nullptr) {
                names.unused.emplace_back(tensor);
            } else if (tensor == nullptr) {
                names.missing.emplace_back(variable);
            } else {
                names.loaded.emplace_back(variable, tensor);
            }
            return done();
        });
        if (status != UMBO_OK) report.is_complete = false;
    }

    // All names, unless there was no memory for one.
    returned<loaded_weights> finish() {
        if (!is_complete) UMBO_DETAIL_TRY(UMBO_STATUS_RESOURCE_EXHAUSTED);
        return std::move(weights);
    }
};

} // namespace detail

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

    // The variables alone. A path that ends with ".json" is that of an index of several files.
    returned<void> save_weights(const std::string &path, const save_weights_options &how = {}) const {
        const umbo_save_weights_options options = detail::to_c(how);
        return check(umbo_checkpoint_save_weights(get(), path.c_str(), &options));
    }

    // The bytes of the file that save() would write.
    returned<std::vector<std::uint8_t>> save_to_memory() const {
        return detail::bytes_of([&](void *data, std::size_t capacity, std::size_t *size) {
            return umbo_checkpoint_save_to_memory(get(), data, capacity, size);
        });
    }

    // All of it, or nothing. The bytes are those of a vector, an array or another range.
    template <class Bytes>
    returned<void> restore_from_memory(const Bytes &bytes) const {
        UMBO_DETAIL_LET(all, detail::all_bytes_of(bytes));
        return check(umbo_checkpoint_restore_from_memory(get(), all.data(), all.size()));
    }

    // Each rank gives what its save_to_memory() has returned, or nothing if it joins; all get that with the most steps.
    // UMBO_STATUS_NOT_FOUND: no rank has anything.
    template <class Bytes>
    returned<void> restore_from_ranks(const Bytes &bytes) const {
        UMBO_DETAIL_LET(all, detail::all_bytes_of(bytes));
        return check(umbo_checkpoint_restore_from_ranks(get(), all.data(), all.size()));
    }

    // The bytes of the file that save_weights() would write.
    returned<std::vector<std::uint8_t>> save_weights_to_memory(const save_weights_options &how = {}) const {
        const umbo_save_weights_options options = detail::to_c(how);
        return detail::bytes_of([&](void *data, std::size_t capacity, std::size_t *size) {
            return umbo_checkpoint_save_weights_to_memory(get(), &options, data, capacity, size);
        });
    }

    // By default all variables, from tensors of the same names.
    returned<loaded_weights> load_weights(const std::string &path,
                                          const load_weights_options &how = {}) const {
        return load(how, [&](const umbo_load_weights_options *options) {
            return umbo_checkpoint_load_weights(get(), path.c_str(), options);
        });
    }

    // Some variables, by the names by which they were added, and for each its tensor in the file.
    returned<loaded_weights>
    load_weights(const std::string &path,
                 const std::vector<std::pair<std::string, std::string>> &pairs) const {
        load_weights_options how;
        how.pairs = pairs;
        return load_weights(path, how);
    }

    template <class Bytes>
    returned<loaded_weights> load_weights_from_memory(const Bytes &bytes,
                                                      const load_weights_options &how = {}) const {
        UMBO_DETAIL_LET(all, detail::all_bytes_of(bytes));
        return load(how, [&](const umbo_load_weights_options *options) {
            return umbo_checkpoint_load_weights_from_memory(get(), all.data(), all.size(), options);
        });
    }

private:
    template <class Load>
    returned<loaded_weights> load(const load_weights_options &how, Load load_by) const {
        std::vector<const char *> names, tensors;
        for (const auto &pair : how.pairs) {
            names.push_back(pair.first.c_str());
            tensors.push_back(pair.second.c_str());
        }
        umbo_load_weights_options options = UMBO_LOAD_WEIGHTS_OPTIONS_INIT;
        if (!names.empty()) {
            options.count = detail::count_of(names.size());
            options.names = names.data();
            if (!how.map_name) options.tensor_names = tensors.data();
        }
        if (!how.prefix.empty()) options.prefix = how.prefix.c_str();
        detail::name_map map{how.map_name, {}};
        if (how.map_name) {
            options.map_name = &detail::map_name_trampoline;
            options.map_name_user_data = &map;
        }
        options.convert_floats = how.convert_floats ? 1 : 0;
        options.allow_missing = how.allow_missing ? 1 : 0;
        detail::weight_report report{};
        options.report = &detail::weight_report::note;
        options.report_user_data = &report;
        UMBO_DETAIL_TRY(load_by(&options));
        return report.finish();
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

    // Saves if one is due, or if `force`; whether it was saved. The best are the best by `metric`.
    returned<bool> save(std::int64_t step, const std::optional<double> &metric = {},
                        bool force = false) const {
        std::int32_t out = 0;
        const double *const number = metric ? &*metric : nullptr;
        UMBO_DETAIL_TRY(umbo_checkpoint_manager_save(get(), step, number, force ? 1 : 0, &out));
        return out != 0;
    }

    // A metric is a number: `save(step, {}, true)` saves even if none is due.
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

    // The path of the checkpoint of a step, which need not exist.
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
