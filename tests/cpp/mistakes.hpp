// Deliberate mistakes, and what the library has to say about each: what was wrong (the function or
// argument), where (replica, variable, index, step, device), and the way out.
#ifndef UMBO_TESTS_CPP_MISTAKES_HPP
#define UMBO_TESTS_CPP_MISTAKES_HPP

#include <umbo/tensorflow.hpp>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "../c/check.h"

inline umbo::strategy two_replicas() {
    umbo::strategy_options how;
    how.cpu_replicas = 2;
    return umbo::strategy::create(how);
}

struct mistake {
    const char *name;
    umbo::status status;
    std::vector<std::string> words; // what was wrong, where, and the way out
    std::function<void()> make;
};

// Makes each of the mistakes. With UMBO_SHOW_MESSAGES in the environment it prints what is said.
inline void judge(const std::vector<mistake> &mistakes) {
    bool all_fine = true;
    for (const mistake &each : mistakes) {
        std::string message;
        umbo::status status = umbo::status::ok;
        try {
            each.make();
        } catch (const umbo::error &error) {
            status = error.status();
            message = error.what();
        } catch (...) {
            // What a callable throws comes out as it is; the library's words are the last error.
            umbo_error_info info{};
            info.struct_size = UMBO_STRUCT_SIZE(umbo_error_info);
            if (umbo_last_error_at(umbo_last_error_count() - 1, &info) == UMBO_OK) status = umbo::status{info.status};
            message = umbo_last_error_message();
        }
        umbo::clear_last_error();
        if (std::getenv("UMBO_SHOW_MESSAGES") != nullptr) {
            std::cerr << each.name << "\n    " << umbo::status_name(status) << ": " << message << "\n";
        }
        bool fine = status == each.status && each.words.size() > 1;
        if (status != each.status) {
            std::cerr << each.name << ": status " << umbo::status_name(status) << ", not " << umbo::status_name(each.status) << "\n";
        }
        for (const std::string &word : each.words) {
            if (message.find(word) != std::string::npos) continue;
            fine = false;
            std::cerr << each.name << ": '" << word << "' is not in: " << message << "\n";
        }
        // Sentences are said once, however many replicas they are about.
        const std::string &first = each.words.front();
        const std::size_t found = message.find(first);
        if (first.find(' ') != std::string::npos && found != std::string::npos &&
            message.find(first, found + 1) != std::string::npos) {
            fine = false;
            std::cerr << each.name << ": '" << first << "' is said twice in: " << message << "\n";
        }
        all_fine = all_fine && fine;
    }
    CHECK(all_fine);
}

#endif
