// The cluster that a process is told to be part of.
#ifndef UMBO_CPP_CLUSTER_RESOLVER_HPP
#define UMBO_CPP_CLUSTER_RESOLVER_HPP

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <umbo/cpp/handle.hpp>

UMBO_DETAIL_BEGIN

// A cluster and this process's place in it. An empty one stands for "none".
class cluster_resolver : public handle<umbo_cluster_resolver> {
public:
    using handle::handle;

    // From the environment variable TF_CONFIG; without it, an empty cluster.
    static returned<cluster_resolver> from_environment() { return from(nullptr); }

    // From TF_CONFIG and from what launchers set; what disagrees is refused.
    static returned<cluster_resolver> of_this_process() {
        umbo_cluster_resolver *out = nullptr;
        UMBO_DETAIL_TRY(umbo_cluster_resolver_from_environment(&out));
        return cluster_resolver(out);
    }

    // From JSON in the form of TF_CONFIG.
    static returned<cluster_resolver> from_tf_config(const std::string &text) { return from(text.c_str()); }

    // The names of the jobs, in alphabetical order.
    returned<std::vector<std::string>> jobs() const {
        std::int64_t count = 0;
        UMBO_DETAIL_TRY(umbo_cluster_resolver_job_count(get(), &count));
        std::vector<std::string> names;
        for (std::int64_t index = 0; index < count; ++index) {
            const char *name = nullptr;
            UMBO_DETAIL_TRY(umbo_cluster_resolver_job_name(get(), index, &name));
            names.emplace_back(name);
        }
        return names;
    }

    // The addresses of the tasks of a job, by their numbers.
    returned<std::map<std::int64_t, std::string>> tasks(const std::string &job) const {
        std::int64_t count = 0;
        UMBO_DETAIL_TRY(umbo_cluster_resolver_task_count(get(), job.c_str(), &count));
        std::map<std::int64_t, std::string> addresses;
        for (std::int64_t position = 0; position < count; ++position) {
            std::int64_t index = 0;
            const char *address = nullptr;
            UMBO_DETAIL_TRY(umbo_cluster_resolver_task(get(), job.c_str(), position, &index, &address));
            addresses.emplace(index, address);
        }
        return addresses;
    }

    // The job that this process is a task of; "" if the configuration does not say.
    returned<std::string> task_type() const {
        const char *out = nullptr;
        UMBO_DETAIL_TRY(umbo_cluster_resolver_task_type(get(), &out));
        return out == nullptr ? "" : out;
    }

    // Which task of its job this process is; -1 if the configuration does not say.
    returned<std::int64_t> task_index() const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_cluster_resolver_task_index(get(), &out));
        return out;
    }

    // Which of the processes that train this one is, and how many there are; -1 and 0 if nothing says.
    returned<std::pair<std::int64_t, std::int64_t>> rank_and_size() const {
        std::pair<std::int64_t, std::int64_t> found{-1, 0};
        UMBO_DETAIL_TRY(umbo_cluster_resolver_rank(get(), &found.first, &found.second));
        return found;
    }

private:
    static returned<cluster_resolver> from(const char *text) {
        umbo_cluster_resolver *out = nullptr;
        UMBO_DETAIL_TRY(umbo_cluster_resolver_from_tf_config(text, &out));
        return cluster_resolver(out);
    }
};

UMBO_DETAIL_END

#endif
