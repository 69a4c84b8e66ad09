/* The layout of the public structs, which programs that were built before rely on: nothing here may
 * change but by additions at an end (and then sizes). The numbers are those of LP64, where
 * pointers and size_t take 8 bytes. Compiling this as C11 and as C++17 is the test. */
#include <assert.h>
#include <stddef.h>

#include <umbo/all.h>

#define SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "size of " #type)
#define FIELD(type, field, bytes) \
    static_assert(offsetof(type, field) == (bytes), "offset of " #type "." #field)

SIZE(void *, 8);
SIZE(size_t, 8);

SIZE(umbo_error_info, 48);
FIELD(umbo_error_info, struct_size, 0);
FIELD(umbo_error_info, status, 8);
FIELD(umbo_error_info, replica, 12);
FIELD(umbo_error_info, device, 16);
FIELD(umbo_error_info, message, 24);
FIELD(umbo_error_info, payload, 32);
FIELD(umbo_error_info, payload_destroy, 40);

SIZE(umbo_device, 8);
FIELD(umbo_device, type, 0);
FIELD(umbo_device, ordinal, 4);

SIZE(umbo_device_info, 56);
FIELD(umbo_device_info, struct_size, 0);
FIELD(umbo_device_info, device, 8);
FIELD(umbo_device_info, name, 16);
FIELD(umbo_device_info, physical_count, 24);
FIELD(umbo_device_info, logical_count, 32);
FIELD(umbo_device_info, total_bytes, 40);
FIELD(umbo_device_info, available_bytes, 48);

SIZE(umbo_view, 200);
FIELD(umbo_view, data, 0);
FIELD(umbo_view, mutable_data, 8);
FIELD(umbo_view, element_bytes, 16);
FIELD(umbo_view, dtype, 24);
FIELD(umbo_view, ndim, 28);
FIELD(umbo_view, device, 32);
FIELD(umbo_view, flags, 40);
FIELD(umbo_view, shape, 48);
FIELD(umbo_view, strides, 112);
FIELD(umbo_view, reserved, 176);

SIZE(umbo_value_info, 96);
FIELD(umbo_value_info, struct_size, 0);
FIELD(umbo_value_info, kind, 8);
FIELD(umbo_value_info, dtype, 12);
FIELD(umbo_value_info, item_count, 16);
FIELD(umbo_value_info, ndim, 24);
FIELD(umbo_value_info, shape, 32);

SIZE(umbo_replica_thread, 48);
FIELD(umbo_replica_thread, replica_id, 0);
FIELD(umbo_replica_thread, is_caller, 4);
FIELD(umbo_replica_thread, replica_count, 8);
FIELD(umbo_replica_thread, device, 16);
FIELD(umbo_replica_thread, processor_count, 24);
FIELD(umbo_replica_thread, processors, 32);
FIELD(umbo_replica_thread, computing_thread_count, 40);

SIZE(umbo_strategy_options, 120);
FIELD(umbo_strategy_options, struct_size, 0);
FIELD(umbo_strategy_options, compute_device_count, 8);
FIELD(umbo_strategy_options, compute_devices, 16);
FIELD(umbo_strategy_options, cpu_replicas, 24);
FIELD(umbo_strategy_options, parameter_device, 32);
FIELD(umbo_strategy_options, replicas_in_sync, 40);
FIELD(umbo_strategy_options, bind_threads, 48);
FIELD(umbo_strategy_options, thread_stack_bytes, 56);
FIELD(umbo_strategy_options, replica_thread_start, 64);
FIELD(umbo_strategy_options, replica_thread_stop, 72);
FIELD(umbo_strategy_options, replica_thread_user_data, 80);
FIELD(umbo_strategy_options, replica_thread_user_data_destroy, 88);
FIELD(umbo_strategy_options, communicator, 96);
FIELD(umbo_strategy_options, strict, 104);
FIELD(umbo_strategy_options, fingerprint_interval, 112);

SIZE(umbo_metric, 32);
FIELD(umbo_metric, struct_size, 0);
FIELD(umbo_metric, sum, 8);
FIELD(umbo_metric, weight, 16);
FIELD(umbo_metric, mean, 24);

SIZE(umbo_strategy_info, 96);
FIELD(umbo_strategy_info, struct_size, 0);
FIELD(umbo_strategy_info, id, 8);
FIELD(umbo_strategy_info, replica_count, 16);
FIELD(umbo_strategy_info, local_replica_count, 24);
FIELD(umbo_strategy_info, compute_device_count, 32);
FIELD(umbo_strategy_info, variable_count, 40);
FIELD(umbo_strategy_info, late_replica_count, 48);
FIELD(umbo_strategy_info, rank, 56);
FIELD(umbo_strategy_info, rank_count, 64);
FIELD(umbo_strategy_info, parameter_device, 72);
FIELD(umbo_strategy_info, thread_stack_bytes, 80);
FIELD(umbo_strategy_info, bind_threads, 88);
FIELD(umbo_strategy_info, strict, 92);

SIZE(umbo_run_options, 32);
FIELD(umbo_run_options, struct_size, 0);
FIELD(umbo_run_options, timeout_seconds, 8);
FIELD(umbo_run_options, cancellation, 16);
FIELD(umbo_run_options, user_data_destroy, 24);

SIZE(umbo_value_context, 16);
FIELD(umbo_value_context, replica_id, 0);
FIELD(umbo_value_context, replica_count, 8);

SIZE(umbo_reduce_options, 40);
FIELD(umbo_reduce_options, struct_size, 0);
FIELD(umbo_reduce_options, axis_count, 8);
FIELD(umbo_reduce_options, axes, 16);
FIELD(umbo_reduce_options, destination, 24);
FIELD(umbo_reduce_options, output, 32);

SIZE(umbo_replica_context_info, 72);
FIELD(umbo_replica_context_info, struct_size, 0);
FIELD(umbo_replica_context_info, replica_id, 8);
FIELD(umbo_replica_context_info, local_replica_id, 12);
FIELD(umbo_replica_context_info, replica_count, 16);
FIELD(umbo_replica_context_info, device, 24);
FIELD(umbo_replica_context_info, stream, 32);
FIELD(umbo_replica_context_info, first_example, 40);
FIELD(umbo_replica_context_info, local_example_count, 48);
FIELD(umbo_replica_context_info, global_example_count, 56);
FIELD(umbo_replica_context_info, step, 64);

SIZE(umbo_variable_options, 80);
FIELD(umbo_variable_options, struct_size, 0);
FIELD(umbo_variable_options, initializer, 8);
FIELD(umbo_variable_options, initializer_user_data, 16);
FIELD(umbo_variable_options, dtype, 24);
FIELD(umbo_variable_options, ndim, 28);
FIELD(umbo_variable_options, shape, 32);
FIELD(umbo_variable_options, trainable, 40);
FIELD(umbo_variable_options, aggregation, 44);
FIELD(umbo_variable_options, initial, 48);
FIELD(umbo_variable_options, initial_mean, 56);
FIELD(umbo_variable_options, initial_spread, 64);
FIELD(umbo_variable_options, initial_seed, 72);

SIZE(umbo_variable_info, 112);
FIELD(umbo_variable_info, struct_size, 0);
FIELD(umbo_variable_info, name, 8);
FIELD(umbo_variable_info, device, 16);
FIELD(umbo_variable_info, dtype, 24);
FIELD(umbo_variable_info, ndim, 28);
FIELD(umbo_variable_info, shape, 32);
FIELD(umbo_variable_info, trainable, 96);
FIELD(umbo_variable_info, aggregation, 100);
FIELD(umbo_variable_info, strategy_id, 104);

SIZE(umbo_element_spec_info, 96);
FIELD(umbo_element_spec_info, struct_size, 0);
FIELD(umbo_element_spec_info, kind, 8);
FIELD(umbo_element_spec_info, dtype, 12);
FIELD(umbo_element_spec_info, item_count, 16);
FIELD(umbo_element_spec_info, ndim, 24);
FIELD(umbo_element_spec_info, shape, 32);

SIZE(umbo_files_options, 48);
FIELD(umbo_files_options, struct_size, 0);
FIELD(umbo_files_options, element_spec, 8);
FIELD(umbo_files_options, open_file_count, 16);
FIELD(umbo_files_options, consecutive_count, 24);
FIELD(umbo_files_options, seed, 32);
FIELD(umbo_files_options, shuffle_files, 40);

SIZE(umbo_generator, 40);
FIELD(umbo_generator, struct_size, 0);
FIELD(umbo_generator, begin, 8);
FIELD(umbo_generator, next, 16);
FIELD(umbo_generator, reset, 24);
FIELD(umbo_generator, end, 32);

SIZE(umbo_map_options, 24);
FIELD(umbo_map_options, struct_size, 0);
FIELD(umbo_map_options, element_spec, 8);
FIELD(umbo_map_options, parallel_call_count, 16);

SIZE(umbo_shuffle_options, 32);
FIELD(umbo_shuffle_options, struct_size, 0);
FIELD(umbo_shuffle_options, buffer_capacity, 8);
FIELD(umbo_shuffle_options, seed, 16);
FIELD(umbo_shuffle_options, keep_order_each_pass, 24);

SIZE(umbo_distribute_options, 40);
FIELD(umbo_distribute_options, struct_size, 0);
FIELD(umbo_distribute_options, split, 8);
FIELD(umbo_distribute_options, drop_partial_step, 12);
FIELD(umbo_distribute_options, host_only, 16);
FIELD(umbo_distribute_options, prefetch_count, 24);
FIELD(umbo_distribute_options, sharding, 32);

SIZE(umbo_input_context, 32);
FIELD(umbo_input_context, struct_size, 0);
FIELD(umbo_input_context, pipeline_count, 8);
FIELD(umbo_input_context, pipeline_index, 16);
FIELD(umbo_input_context, replica_count, 24);

SIZE(umbo_gradients_options, 40);
FIELD(umbo_gradients_options, struct_size, 0);
FIELD(umbo_gradients_options, loss_reduction, 8);
FIELD(umbo_gradients_options, accumulation_steps, 16);
FIELD(umbo_gradients_options, row_sparse, 24);
FIELD(umbo_gradients_options, dtype, 32);

SIZE(umbo_gradients_info, 40);
FIELD(umbo_gradients_info, struct_size, 0);
FIELD(umbo_gradients_info, variable_count, 8);
FIELD(umbo_gradients_info, accumulation_steps, 16);
FIELD(umbo_gradients_info, loss_reduction, 24);
FIELD(umbo_gradients_info, dtype, 28);
FIELD(umbo_gradients_info, row_sparse, 32);

SIZE(umbo_sgd_options, 16);
FIELD(umbo_sgd_options, struct_size, 0);
FIELD(umbo_sgd_options, learning_rate, 8);

SIZE(umbo_momentum_options, 40);
FIELD(umbo_momentum_options, struct_size, 0);
FIELD(umbo_momentum_options, learning_rate, 8);
FIELD(umbo_momentum_options, momentum, 16);
FIELD(umbo_momentum_options, nesterov, 24);
FIELD(umbo_momentum_options, dampening, 32);

SIZE(umbo_adam_options, 48);
FIELD(umbo_adam_options, struct_size, 0);
FIELD(umbo_adam_options, learning_rate, 8);
FIELD(umbo_adam_options, beta1, 16);
FIELD(umbo_adam_options, beta2, 24);
FIELD(umbo_adam_options, epsilon, 32);
FIELD(umbo_adam_options, amsgrad, 40);

SIZE(umbo_adamw_options, 56);
FIELD(umbo_adamw_options, struct_size, 0);
FIELD(umbo_adamw_options, learning_rate, 8);
FIELD(umbo_adamw_options, beta1, 16);
FIELD(umbo_adamw_options, beta2, 24);
FIELD(umbo_adamw_options, epsilon, 32);
FIELD(umbo_adamw_options, weight_decay, 40);
FIELD(umbo_adamw_options, amsgrad, 48);

SIZE(umbo_lamb_options, 48);
FIELD(umbo_lamb_options, struct_size, 0);
FIELD(umbo_lamb_options, learning_rate, 8);
FIELD(umbo_lamb_options, beta1, 16);
FIELD(umbo_lamb_options, beta2, 24);
FIELD(umbo_lamb_options, epsilon, 32);
FIELD(umbo_lamb_options, weight_decay, 40);

SIZE(umbo_adagrad_options, 40);
FIELD(umbo_adagrad_options, struct_size, 0);
FIELD(umbo_adagrad_options, learning_rate, 8);
FIELD(umbo_adagrad_options, initial_accumulator, 16);
FIELD(umbo_adagrad_options, epsilon, 24);
FIELD(umbo_adagrad_options, learning_rate_decay, 32);

SIZE(umbo_rmsprop_options, 48);
FIELD(umbo_rmsprop_options, struct_size, 0);
FIELD(umbo_rmsprop_options, learning_rate, 8);
FIELD(umbo_rmsprop_options, rho, 16);
FIELD(umbo_rmsprop_options, momentum, 24);
FIELD(umbo_rmsprop_options, epsilon, 32);
FIELD(umbo_rmsprop_options, centered, 40);

SIZE(umbo_ftrl_options, 48);
FIELD(umbo_ftrl_options, struct_size, 0);
FIELD(umbo_ftrl_options, learning_rate, 8);
FIELD(umbo_ftrl_options, beta, 16);
FIELD(umbo_ftrl_options, l1, 24);
FIELD(umbo_ftrl_options, l2, 32);
FIELD(umbo_ftrl_options, initial_accumulator, 40);

SIZE(umbo_update_tile, 80);
FIELD(umbo_update_tile, struct_size, 0);
FIELD(umbo_update_tile, dtype, 8);
FIELD(umbo_update_tile, state_count, 12);
FIELD(umbo_update_tile, count, 16);
FIELD(umbo_update_tile, first, 24);
FIELD(umbo_update_tile, weights, 32);
FIELD(umbo_update_tile, gradient, 40);
FIELD(umbo_update_tile, states, 48);
FIELD(umbo_update_tile, learning_rate, 56);
FIELD(umbo_update_tile, weight_decay, 64);
FIELD(umbo_update_tile, step, 72);

SIZE(umbo_custom_rule_options, 72);
FIELD(umbo_custom_rule_options, struct_size, 0);
FIELD(umbo_custom_rule_options, name, 8);
FIELD(umbo_custom_rule_options, learning_rate, 16);
FIELD(umbo_custom_rule_options, weight_decay, 24);
FIELD(umbo_custom_rule_options, decoupled_weight_decay, 32);
FIELD(umbo_custom_rule_options, state_count, 40);
FIELD(umbo_custom_rule_options, state_names, 48);
FIELD(umbo_custom_rule_options, state_initials, 56);
FIELD(umbo_custom_rule_options, update_on_gpu, 64);

SIZE(umbo_optimizer_options, 88);
FIELD(umbo_optimizer_options, struct_size, 0);
FIELD(umbo_optimizer_options, weight_decay, 8);
FIELD(umbo_optimizer_options, global_clip_norm, 16);
FIELD(umbo_optimizer_options, clip_value, 24);
FIELD(umbo_optimizer_options, non_finite, 32);
FIELD(umbo_optimizer_options, loss_scaling, 36);
FIELD(umbo_optimizer_options, loss_scale, 40);
FIELD(umbo_optimizer_options, loss_scale_growth_factor, 48);
FIELD(umbo_optimizer_options, loss_scale_backoff_factor, 56);
FIELD(umbo_optimizer_options, loss_scale_minimum, 64);
FIELD(umbo_optimizer_options, loss_scale_growth_interval, 72);
FIELD(umbo_optimizer_options, maximize, 80);

SIZE(umbo_group_options, 32);
FIELD(umbo_group_options, struct_size, 0);
FIELD(umbo_group_options, learning_rate_factor, 8);
FIELD(umbo_group_options, weight_decay, 16);
FIELD(umbo_group_options, frozen, 24);

SIZE(umbo_apply_options, 16);
FIELD(umbo_apply_options, struct_size, 0);
FIELD(umbo_apply_options, flush, 8);
FIELD(umbo_apply_options, measure_norm, 12);

SIZE(umbo_apply_report, 96);
FIELD(umbo_apply_report, struct_size, 0);
FIELD(umbo_apply_report, applied, 8);
FIELD(umbo_apply_report, deferred, 12);
FIELD(umbo_apply_report, updated_count, 16);
FIELD(umbo_apply_report, skipped, 24);
FIELD(umbo_apply_report, total_weight, 32);
FIELD(umbo_apply_report, iterations, 40);
FIELD(umbo_apply_report, gradient_norm, 48);
FIELD(umbo_apply_report, learning_rate, 56);
FIELD(umbo_apply_report, loss_scale, 64);
FIELD(umbo_apply_report, non_finite_variable, 72);
FIELD(umbo_apply_report, clipped, 80);
FIELD(umbo_apply_report, accumulated_count, 88);

SIZE(umbo_optimizer_info, 40);
FIELD(umbo_optimizer_info, struct_size, 0);
FIELD(umbo_optimizer_info, rule, 8);
FIELD(umbo_optimizer_info, iterations, 16);
FIELD(umbo_optimizer_info, learning_rate, 24);
FIELD(umbo_optimizer_info, loss_scale, 32);

SIZE(umbo_metric_options, 40);
FIELD(umbo_metric_options, struct_size, 0);
FIELD(umbo_metric_options, class_count, 8);
FIELD(umbo_metric_options, bin_count, 16);
FIELD(umbo_metric_options, lowest_score, 24);
FIELD(umbo_metric_options, highest_score, 32);

SIZE(umbo_metrics_info, 32);
FIELD(umbo_metrics_info, struct_size, 0);
FIELD(umbo_metrics_info, metric_count, 8);
FIELD(umbo_metrics_info, name, 16);
FIELD(umbo_metrics_info, kind, 24);

SIZE(umbo_class_metric, 56);
FIELD(umbo_class_metric, struct_size, 0);
FIELD(umbo_class_metric, true_positives, 8);
FIELD(umbo_class_metric, false_positives, 16);
FIELD(umbo_class_metric, false_negatives, 24);
FIELD(umbo_class_metric, precision, 32);
FIELD(umbo_class_metric, recall, 40);
FIELD(umbo_class_metric, f1, 48);

SIZE(umbo_progress, 64);
FIELD(umbo_progress, struct_size, 0);
FIELD(umbo_progress, step_count, 8);
FIELD(umbo_progress, example_count, 16);
FIELD(umbo_progress, update_count, 24);
FIELD(umbo_progress, skipped_count, 32);
FIELD(umbo_progress, seconds, 40);
FIELD(umbo_progress, last_apply, 48);
FIELD(umbo_progress, metrics, 56);

SIZE(umbo_train_epoch_options, 80);
FIELD(umbo_train_epoch_options, struct_size, 0);
FIELD(umbo_train_epoch_options, metrics, 8);
FIELD(umbo_train_epoch_options, progress, 16);
FIELD(umbo_train_epoch_options, progress_user_data, 24);
FIELD(umbo_train_epoch_options, timeout_seconds, 32);
FIELD(umbo_train_epoch_options, cancellation, 40);
FIELD(umbo_train_epoch_options, max_steps, 48);
FIELD(umbo_train_epoch_options, flush, 56);
FIELD(umbo_train_epoch_options, reset_iterator, 60);
FIELD(umbo_train_epoch_options, user_data_destroy, 64);
FIELD(umbo_train_epoch_options, keep_metrics, 72);

SIZE(umbo_train_epoch_report, 56);
FIELD(umbo_train_epoch_report, struct_size, 0);
FIELD(umbo_train_epoch_report, step_count, 8);
FIELD(umbo_train_epoch_report, example_count, 16);
FIELD(umbo_train_epoch_report, update_count, 24);
FIELD(umbo_train_epoch_report, skipped_count, 32);
FIELD(umbo_train_epoch_report, seconds, 40);
FIELD(umbo_train_epoch_report, pass_ended, 48);

SIZE(umbo_equivalence_options, 24);
FIELD(umbo_equivalence_options, struct_size, 0);
FIELD(umbo_equivalence_options, relative_tolerance, 8);
FIELD(umbo_equivalence_options, absolute_tolerance, 16);

SIZE(umbo_equivalence_info, 32);
FIELD(umbo_equivalence_info, struct_size, 0);
FIELD(umbo_equivalence_info, holds, 8);
FIELD(umbo_equivalence_info, text, 16);
FIELD(umbo_equivalence_info, finding_count, 24);

SIZE(umbo_equivalence_finding, 64);
FIELD(umbo_equivalence_finding, struct_size, 0);
FIELD(umbo_equivalence_finding, subject, 8);
FIELD(umbo_equivalence_finding, verdict, 12);
FIELD(umbo_equivalence_finding, variable_index, 16);
FIELD(umbo_equivalence_finding, element_index, 24);
FIELD(umbo_equivalence_finding, factor, 32);
FIELD(umbo_equivalence_finding, difference, 40);
FIELD(umbo_equivalence_finding, name, 48);
FIELD(umbo_equivalence_finding, text, 56);

SIZE(umbo_checkpoint_manager_options, 56);
FIELD(umbo_checkpoint_manager_options, struct_size, 0);
FIELD(umbo_checkpoint_manager_options, max_to_keep, 8);
FIELD(umbo_checkpoint_manager_options, max_best_to_keep, 16);
FIELD(umbo_checkpoint_manager_options, larger_is_better, 24);
FIELD(umbo_checkpoint_manager_options, asynchronous, 28);
FIELD(umbo_checkpoint_manager_options, every_steps, 32);
FIELD(umbo_checkpoint_manager_options, every_seconds, 40);
FIELD(umbo_checkpoint_manager_options, start_fresh, 48);

SIZE(umbo_variable_progress, 32);
FIELD(umbo_variable_progress, struct_size, 0);
FIELD(umbo_variable_progress, update_count, 8);
FIELD(umbo_variable_progress, first_running, 16);
FIELD(umbo_variable_progress, second_running, 24);

SIZE(umbo_communicator_functions, 96);
FIELD(umbo_communicator_functions, struct_size, 0);
FIELD(umbo_communicator_functions, flags, 8);
FIELD(umbo_communicator_functions, rank, 16);
FIELD(umbo_communicator_functions, rank_count, 24);
FIELD(umbo_communicator_functions, node_rank, 32);
FIELD(umbo_communicator_functions, node_rank_count, 40);
FIELD(umbo_communicator_functions, all_to_all, 48);
FIELD(umbo_communicator_functions, all_gather, 56);
FIELD(umbo_communicator_functions, broadcast, 64);
FIELD(umbo_communicator_functions, vote, 72);
FIELD(umbo_communicator_functions, barrier, 80);
FIELD(umbo_communicator_functions, abort, 88);

SIZE(umbo_communicator_info, 40);
FIELD(umbo_communicator_info, struct_size, 0);
FIELD(umbo_communicator_info, rank, 8);
FIELD(umbo_communicator_info, rank_count, 16);
FIELD(umbo_communicator_info, node_rank, 24);
FIELD(umbo_communicator_info, node_rank_count, 32);

SIZE(umbo_mpi_options, 48);
FIELD(umbo_mpi_options, struct_size, 0);
FIELD(umbo_mpi_options, timeout_seconds, 8);
FIELD(umbo_mpi_options, library, 16);
FIELD(umbo_mpi_options, max_message_bytes, 24);
FIELD(umbo_mpi_options, find, 32);
FIELD(umbo_mpi_options, find_user_data, 40);

SIZE(umbo_cluster_resolver_info, 48);
FIELD(umbo_cluster_resolver_info, struct_size, 0);
FIELD(umbo_cluster_resolver_info, job_count, 8);
FIELD(umbo_cluster_resolver_info, task_type, 16);
FIELD(umbo_cluster_resolver_info, task_index, 24);
FIELD(umbo_cluster_resolver_info, rank, 32);
FIELD(umbo_cluster_resolver_info, rank_count, 40);

SIZE(umbo_step_times, 104);
FIELD(umbo_step_times, struct_size, 0);
FIELD(umbo_step_times, measured_step_count, 8);
FIELD(umbo_step_times, step_count, 16);
FIELD(umbo_step_times, step, 24);
FIELD(umbo_step_times, input, 32);
FIELD(umbo_step_times, split, 40);
FIELD(umbo_step_times, copy, 48);
FIELD(umbo_step_times, compute, 56);
FIELD(umbo_step_times, wait, 64);
FIELD(umbo_step_times, reduce, 72);
FIELD(umbo_step_times, update, 80);
FIELD(umbo_step_times, exchange, 88);
FIELD(umbo_step_times, outside, 96);

SIZE(umbo_trace_options, 16);
FIELD(umbo_trace_options, struct_size, 0);
FIELD(umbo_trace_options, max_events, 8);

SIZE(umbo_variable_request_info, 40);
FIELD(umbo_variable_request_info, struct_size, 0);
FIELD(umbo_variable_request_info, name, 8);
FIELD(umbo_variable_request_info, device, 16);
FIELD(umbo_variable_request_info, trainable, 24);
FIELD(umbo_variable_request_info, aggregation, 28);
FIELD(umbo_variable_request_info, synchronization, 32);

SIZE(umbo_destination, 32);
FIELD(umbo_destination, struct_size, 0);
FIELD(umbo_destination, device, 8);
FIELD(umbo_destination, like, 16);
FIELD(umbo_destination, variable, 24);
