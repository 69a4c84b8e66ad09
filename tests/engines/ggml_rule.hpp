// ggml's AdamW as a rule of the program. Its compiler may have fused some of the multiplications and additions, on which
// the rounding depends: asking ggml for one step finds out which.
#ifndef UMBO_TESTS_GGML_RULE_HPP
#define UMBO_TESTS_GGML_RULE_HPP

#include <umbo/adapters/ggml.hpp>

#include <cmath>
#include <cstring>
#include <vector>

#include "../c/check.h"

struct ggml_rule {
    ggml_opt_optimizer_params how = {};
    int first = 0, second = 0, last = 0; // 0: two roundings; 1 and 2: one, of the left or the right product

    static float sum_of(int fused, float a, float b, float c, float d) { // a * b + c * d
        volatile float left = a * b, right = c * d;
        return fused == 0 ? left + right : fused == 1 ? std::fma(a, b, right) : std::fma(c, d, left);
    }

    void update(float &w, float g, float &m, float &v, std::int64_t step) const {
        const auto &with = how.adamw;
        const auto time = static_cast<float>(step);
        const float beta1h = 1.0f / (1.0f - std::pow(with.beta1, time)), beta2h = 1.0f / (1.0f - std::pow(with.beta2, time));
        volatile float square = g * g;
        m = sum_of(first, m, with.beta1, g, 1.0f - with.beta1);
        v = sum_of(second, v, with.beta2, square, 1.0f - with.beta2);
        volatile float mh = m * beta1h, scaled = v * beta2h, top = with.alpha * mh, decay = with.alpha * with.wd;
        const float keep = 1.0f - decay, quotient = top / (std::sqrt(scaled) + with.eps);
        volatile float kept = w * keep;
        w = last == 0 ? kept - quotient : std::fma(w, keep, -quotient);
    }

    static ggml_rule as_ggml_was_compiled(const ggml_opt_optimizer_params &how) {
        constexpr int count = 4099;
        const ggml_init_params size = {(1 << 20) + 8 * count * sizeof(float), nullptr, false};
        ggml_context *context = ggml_init(size);
        ggml_tensor *of[4], *params = ggml_new_tensor_1d(context, GGML_TYPE_F32, 7);
        std::vector<float> before[4];
        std::uint32_t state = 3;
        for (int which = 0; which < 4; ++which) {
            of[which] = ggml_new_tensor_1d(context, GGML_TYPE_F32, count);
            auto *numbers = static_cast<float *>(of[which]->data);
            for (int at = 0; at < count; ++at) {
                state = state * 1664525u + 1013904223u;
                numbers[at] = static_cast<float>(state >> 8) / 16777216.0f + (which == 3 ? 0.01f : -0.5f);
            }
            before[which].assign(numbers, numbers + count);
        }
        const float numbers[7] = {how.adamw.alpha, how.adamw.beta1, how.adamw.beta2, how.adamw.eps, how.adamw.wd,
                                  1.0f / (1.0f - std::pow(how.adamw.beta1, 5.0f)), 1.0f / (1.0f - std::pow(how.adamw.beta2, 5.0f))};
        std::memcpy(params->data, numbers, sizeof(numbers));
        ggml_set_param(of[0]);
        ggml_cgraph *graph = ggml_new_graph(context);
        ggml_build_forward_expand(graph, ggml_opt_step_adamw(context, of[0], of[1], of[2], of[3], params));
        CHECK(ggml_graph_compute_with_ctx(context, graph, 1) == GGML_STATUS_SUCCESS);
        ggml_rule found;
        found.how = how;
        bool agrees = false;
        for (int variant = 0; variant < 18 && !agrees; ++variant) {
            found.first = variant % 3;
            found.second = variant / 3 % 3;
            found.last = variant / 9;
            agrees = true;
            for (int at = 0; at < count && agrees; ++at) {
                const auto place = static_cast<std::size_t>(at);
                float w = before[0][place], m = before[2][place], v = before[3][place];
                found.update(w, before[1][place], m, v, 5);
                agrees = w == static_cast<float *>(of[0]->data)[at] && m == static_cast<float *>(of[2]->data)[at] &&
                         v == static_cast<float *>(of[3]->data)[at];
            }
        }
        ggml_free(context);
        CHECK(agrees);
        return found;
    }

    umbo::optimizer on(const umbo::strategy &strategy) const {
        umbo::custom_rule_options states;
        states.state_names = {"m", "v"};
        return umbo::optimizer::custom(strategy, states, [rule = *this](const umbo_update_tile &tile) noexcept {
            auto *w = static_cast<float *>(tile.weights);
            const auto *g = static_cast<const float *>(tile.gradient);
            auto *m = static_cast<float *>(tile.states[0]), *v = static_cast<float *>(tile.states[1]);
            for (std::int64_t at = 0; at < tile.count; ++at) rule.update(w[at], g[at], m[at], v[at], tile.step + 1);
        });
    }
};

#endif
