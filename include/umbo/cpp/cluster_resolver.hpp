// The cluster that a process is told to be part of.
#ifndef UMBO_CPP_CLUSTER_RESOLVER_HPP
#define UMBO_CPP_CLUSTER_RESOLVER_HPP

#include <cstdint>
#include <map>
#include <string>

#include <umbo/cpp/handle.hpp>

UMBO_DETAIL_BEGIN

// A cluster and this process's place in it. An empty one stands for "none".
class cluster_resolver : public handle<umbo_cluster_resolver> {
public:
    using handle::handle;

    // From JSON in the form of TF_CONFIG.
    static returned<cluster_resolver> from_tf_config(const std::string &text) { return from(text.c_str()); }

    // From the environment variable TF_CONFIG; without it, an empty cluster.
    static returned<cluster_resolver> from_tf_config() { return from(nullptr); }

    // From TF_CONFIG and from what launchers set; what disagrees is refused.
    static returned<cluster_resolver> from_environment() {
        umbo_cluster_resolver *out = nullptr;
        UMBO_DETAIL_TRY(umbo_cluster_resolver_from_environment(&out));
        return cluster_resolver(out);
    }

    // All that the functions for one field get, in one call.
    returned<umbo_cluster_resolver_info> info() const {
        umbo_cluster_resolver_info out = UMBO_CLUSTER_RESOLVER_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_cluster_resolver_get_info(get(), &out));
        return out;
    }

    // The names of the jobs, in alphabetical order, and how many tasks each has.
    returned<std::map<std::string, std::int64_t>> jobs() const {
        UMBO_DETAIL_LET(found, info());
        std::map<std::string, std::int64_t> jobs;
        for (std::int64_t index = 0; index < found.job_count; ++index) {
            const char *name = nullptr;
            std::int64_t task_count = 0;
            UMBO_DETAIL_TRY(umbo_cluster_resolver_job(get(), index, &name, &task_count));
            jobs.emplace(name, task_count);
        }
        return jobs;
    }

    // The addresses of the tasks of a job, by their numbers.
    returned<std::map<std::int64_t, std::string>> tasks(const std::string &job) const {
        UMBO_DETAIL_LET(all, jobs());
        const auto found = all.find(job);
        // A job that is not there is refused below.
        const std::int64_t count = found == all.end() ? 1 : found->second;
        std::map<std::int64_t, std::string> addresses;
        for (std::int64_t index = 0; index < count; ++index) {
            std::int64_t number = 0;
            const char *address = nullptr;
            UMBO_DETAIL_TRY(umbo_cluster_resolver_task(get(), job.c_str(), index, &number, &address));
            addresses.emplace(number, address);
        }
        return addresses;
    }

    // The job that this process is a task of; "" if the configuration names none.
    returned<std::string> task_type() const {
        UMBO_DETAIL_LET(found, info());
        return found.task_type == nullptr ? "" : found.task_type;
    }

    // The number of this process in its job, or UMBO_NONE.
    returned<std::int64_t> task_index() const {
        UMBO_DETAIL_LET(found, info());
        return found.task_index;
    }

    // The rank of this process, or UMBO_NONE.
    returned<std::int64_t> rank() const {
        UMBO_DETAIL_LET(found, info());
        return found.rank;
    }

    // 0 if nothing gives it.
    returned<std::int64_t> rank_count() const {
        UMBO_DETAIL_LET(found, info());
        return found.rank_count;
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
