//! Indexed slices, scatter updates, updates, values from functions, creators and cluster resolvers
//! as a C program uses them.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use umbo::ffi::*;

use super::alone;

fn text(pointer: *const c_char) -> String {
    // SAFETY: the library's texts are valid while the test looks.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap().to_owned()
}

fn message() -> String {
    text(umbo_last_error_message())
}

#[track_caller]
fn ok(status: umbo_status) {
    assert_eq!(status, UMBO_OK, "{}", message());
}

#[track_caller]
fn refused(status: umbo_status, expected: umbo_status, part: &str) {
    assert_eq!(status, expected, "{}", message());
    assert!(message().contains(part), "'{part}' is not in: {}", message());
}

fn live() -> i64 {
    let mut count = -1;
    // SAFETY: the output is a variable.
    ok(unsafe { umbo_live_handles(UMBO_HANDLE_ANY, &mut count) });
    count
}

fn strategy(replicas: i64) -> *mut umbo_strategy {
    // SAFETY: all zero is a value of the struct; the output is a variable.
    unsafe {
        let options = umbo_strategy_options { cpu_replicas: replicas, ..Default::default() };
        let mut made = ptr::null_mut();
        ok(umbo_strategy_create(&options, &mut made));
        made
    }
}

fn floats(data: &[f32]) -> *mut umbo_tensor {
    let (shape, mut made) = ([data.len() as i64], ptr::null_mut());
    // SAFETY: the data are as many as the shape says.
    ok(unsafe {
        umbo_tensor_from_data(
            UMBO_DTYPE_FLOAT32,
            1,
            shape.as_ptr(),
            data.as_ptr().cast(),
            ptr::null(),
            &mut made,
        )
    });
    made
}

fn value(data: &[f32]) -> *mut umbo_value {
    let (tensor, mut made) = (floats(data), ptr::null_mut());
    // SAFETY: the tensor is live, the output a variable.
    unsafe {
        ok(umbo_value_from_tensor(tensor, &mut made));
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
    made
}

fn slices(data: &[f32], indices: &[i64], rows: i64) -> *mut umbo_value {
    let (values, mut numbers, mut made) = (floats(data), ptr::null_mut(), ptr::null_mut());
    let shape = [indices.len() as i64];
    // SAFETY: the arrays are as long as stated, the outputs are variables.
    unsafe {
        let from = indices.as_ptr().cast();
        ok(umbo_tensor_from_data(
            UMBO_DTYPE_INT64,
            1,
            shape.as_ptr(),
            from,
            ptr::null(),
            &mut numbers,
        ));
        ok(umbo_value_create_indexed_slices(values, numbers, 1, &rows, &mut made));
        umbo_release(values.cast(), UMBO_HANDLE_TENSOR);
        umbo_release(numbers.cast(), UMBO_HANDLE_TENSOR);
    }
    made
}

fn elements(tensor: *const umbo_tensor) -> Vec<f32> {
    // SAFETY: all zero is a value of the struct; the view is of contiguous floats.
    unsafe {
        let mut view: umbo_view = std::mem::zeroed();
        ok(umbo_tensor_view(tensor, &mut view));
        assert_eq!(view.dtype, UMBO_DTYPE_FLOAT32);
        std::slice::from_raw_parts(view.data.cast(), view.shape[0] as usize).to_vec()
    }
}

fn variable(strategy: *mut umbo_strategy, name: &CStr, data: &[f32]) -> *mut umbo_variable {
    let (tensor, mut made) = (floats(data), ptr::null_mut());
    // SAFETY: the handles are live, the output a variable.
    unsafe {
        ok(umbo_variable_create(strategy, name.as_ptr(), tensor, ptr::null(), &mut made));
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
    }
    made
}

fn stored(variable: *const umbo_variable) -> Vec<f32> {
    let mut tensor = ptr::null_mut();
    // SAFETY: the output is a variable.
    unsafe {
        ok(umbo_variable_read(variable, &mut tensor));
        let all = elements(tensor);
        umbo_release(tensor.cast(), UMBO_HANDLE_TENSOR);
        all
    }
}

fn info(value: *const umbo_value) -> umbo_value_info {
    let mut info = umbo_value_info::default();
    // SAFETY: the handle is live, the output is a variable.
    ok(unsafe { umbo_value_get_info(value, &mut info) });
    info
}

#[test]
fn indexed_slices_are_built_reduced_and_taken_apart() {
    let _alone = alone();
    let before = live();
    let s = strategy(2);
    let parts = [slices(&[1.0], &[1], 4), slices(&[2.0, 3.0], &[0, 3], 4)];
    // SAFETY: the arrays are as long as stated, the outputs are variables.
    unsafe {
        let (mut both, mut sum) = (ptr::null_mut(), ptr::null_mut());
        let components = parts.map(|part| part.cast_const());
        ok(umbo_value_create_per_replica(2, components.as_ptr(), &mut both));
        ok(umbo_strategy_reduce(s, UMBO_REDUCE_SUM, both, ptr::null(), &mut sum));
        let (mut values, mut indices) = (ptr::null_mut(), ptr::null_mut());
        ok(umbo_value_indexed_slices(sum, &mut values, &mut indices));
        assert_eq!(elements(values), [1.0, 2.0, 3.0]);
        let mut numbers = [0i64; 3];
        ok(umbo_tensor_copy_to_host(indices, numbers.as_mut_ptr().cast(), size_of_val(&numbers)));
        assert_eq!(numbers, [1, 0, 3]);
        let info = info(sum);
        assert_eq!((info.kind, info.item_count), (UMBO_VALUE_INDEXED_SLICES, 1));
        assert_eq!((info.dtype, info.ndim), (UMBO_DTYPE_FLOAT32, 1));
        assert_eq!(info.shape, [4, 0, 0, 0, 0, 0, 0, 0]);
        umbo_release(values.cast(), UMBO_HANDLE_TENSOR);
        umbo_release(indices.cast(), UMBO_HANDLE_TENSOR);
        let plain = value(&[1.0]);
        refused(
            umbo_value_indexed_slices(plain, &mut values, &mut indices),
            UMBO_STATUS_INVALID_ARGUMENT,
            "is a tensor, not indexed slices",
        );
        let mut tensor = ptr::null_mut();
        refused(
            umbo_value_tensor(sum, &mut tensor),
            UMBO_STATUS_INVALID_ARGUMENT,
            "indexed slices",
        );
        let mut gathered = ptr::null_mut();
        refused(
            umbo_strategy_gather(s, sum, 0, ptr::null(), &mut gathered),
            UMBO_STATUS_UNIMPLEMENTED,
            "indexed slices",
        );
        for handle in [both, sum, plain, parts[0], parts[1]] {
            umbo_release(handle.cast(), UMBO_HANDLE_VALUE);
        }
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
    assert_eq!(live(), before);
}

#[test]
fn scatter_updates_change_rows() {
    let _alone = alone();
    let before = live();
    let s = strategy(2);
    let v = variable(s, c"v", &[10.0, 20.0, 30.0]);
    let steps: [(umbo_scatter_op, f32, f32); 7] = [
        (UMBO_SCATTER_ADD, 2.0, 32.0),
        (UMBO_SCATTER_SUB, 12.0, 20.0),
        (UMBO_SCATTER_MUL, 2.0, 40.0),
        (UMBO_SCATTER_DIV, 4.0, 10.0),
        (UMBO_SCATTER_MIN, 5.0, 5.0),
        (UMBO_SCATTER_MAX, 6.0, 6.0),
        (UMBO_SCATTER_UPDATE, 7.0, 7.0),
    ];
    // SAFETY: the handles are live.
    unsafe {
        for (op, operand, expected) in steps {
            let part = slices(&[operand], &[2], 3);
            ok(umbo_variable_scatter(v, op, part));
            umbo_release(part.cast(), UMBO_HANDLE_VALUE);
            assert_eq!(stored(v), [10.0, 20.0, expected]);
        }
        let outside = slices(&[1.0, 1.0], &[0, 3], 3);
        refused(
            umbo_variable_scatter(v, UMBO_SCATTER_ADD, outside),
            UMBO_STATUS_OUT_OF_RANGE,
            "3 at position 1",
        );
        assert_eq!(stored(v), [10.0, 20.0, 7.0]);
        umbo_release(outside.cast(), UMBO_HANDLE_VALUE);
        umbo_release(v.cast(), UMBO_HANDLE_VARIABLE);
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
    assert_eq!(live(), before);
}

unsafe extern "C-unwind" fn assign_and_return(
    variable: *mut umbo_variable,
    args: *const umbo_value,
    _: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the handles are lent for the call.
    unsafe {
        ok(umbo_variable_assign(variable, args));
        umbo_retain(args.cast(), UMBO_HANDLE_VALUE, result.cast())
    }
}

unsafe extern "C-unwind" fn update_from_a_replica(
    _: *mut umbo_replica_context,
    args: *const umbo_value,
    variable: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    let mut strategy = ptr::null_mut();
    // SAFETY: the handles are lent for the call; the user data is the variable's handle.
    unsafe {
        ok(umbo_current_strategy(&mut strategy));
        let status = umbo_strategy_update(
            strategy,
            variable.cast(),
            Some(assign_and_return),
            ptr::null_mut(),
            args,
            result,
        );
        umbo_release(strategy.cast(), UMBO_HANDLE_STRATEGY);
        status
    }
}

#[test]
fn updates_merge() {
    let _alone = alone();
    let before = live();
    let s = strategy(2);
    let v = variable(s, c"v", &[0.0]);
    let one = value(&[1.0]);
    // SAFETY: the handles are live, the outputs variables.
    unsafe {
        let (function, none) = (Some(assign_and_return as _), ptr::null_mut());
        let mut result = ptr::null_mut();
        ok(umbo_strategy_update(s, v, function, none, one, &mut result));
        assert_eq!(info(result).kind, UMBO_VALUE_TENSOR);
        umbo_release(result.cast(), UMBO_HANDLE_VALUE);
        assert_eq!(stored(v), [1.0]);
        // In a run: replica 0's value, and one result for all.
        let (parts, mut both) = ([value(&[5.0]), value(&[6.0])], ptr::null_mut());
        let components = parts.map(|part| part.cast_const());
        ok(umbo_value_create_per_replica(2, components.as_ptr(), &mut both));
        let run = Some(update_from_a_replica as _);
        ok(umbo_strategy_run(s, run, v.cast(), both, ptr::null(), &mut result));
        assert_eq!(stored(v), [5.0]);
        for handle in [one, both, parts[0], parts[1], result] {
            umbo_release(handle.cast(), UMBO_HANDLE_VALUE);
        }
        umbo_release(v.cast(), UMBO_HANDLE_VARIABLE);
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
    assert_eq!(live(), before);
}

unsafe extern "C-unwind" fn id_as_value(
    context: *const umbo_value_context,
    calls: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the context lives as long as the call; the user data is the counter.
    unsafe {
        *calls.cast::<i32>() += 1;
        let context = &*context;
        assert_eq!(context.replica_count, 2);
        match context.replica_id {
            7 => UMBO_OK,
            id => {
                *result = value(&[id as f32]);
                UMBO_OK
            }
        }
    }
}

unsafe extern "C-unwind" fn no_value(
    _: *const umbo_value_context,
    _: *mut c_void,
    _: *mut *mut umbo_value,
) -> umbo_status {
    UMBO_OK
}

#[test]
fn values_from_functions_and_destinations() {
    let _alone = alone();
    let before = live();
    let s = strategy(2);
    // SAFETY: all zero is a value of the structs; the handles are live, the outputs variables.
    unsafe {
        let (mut calls, mut made) = (0i32, ptr::null_mut());
        let counter = (&raw mut calls).cast();
        ok(umbo_strategy_values_from_function(s, Some(id_as_value), counter, &mut made));
        let of_made = info(made);
        let (kind, count) = (of_made.kind, of_made.item_count);
        assert_eq!((kind, count, calls), (UMBO_VALUE_PER_REPLICA, 2, 2));
        let mut nothing = ptr::null_mut();
        let status =
            umbo_strategy_values_from_function(s, Some(no_value), ptr::null_mut(), &mut nothing);
        refused(status, UMBO_STATUS_INVALID_ARGUMENT, "no value for replica 0");

        let mut destinations = [umbo_destination::default(); 2];
        destinations[0].device = c"CPU:1".as_ptr();
        destinations[1].like = made;
        let (values, mut results) = ([made.cast_const(), made], ptr::null_mut());
        let batch = |count, results: *mut *mut umbo_value| {
            let to = destinations.each_ref().map(ptr::from_ref);
            let (values, to) = (values.as_ptr(), to.as_ptr());
            umbo_strategy_batch_reduce_to(s, UMBO_REDUCE_SUM, count, values, to, results)
        };
        ok(batch(2, &mut results));
        let mut view: umbo_view = std::mem::zeroed();
        ok(umbo_value_view(results, c"0".as_ptr(), UMBO_DTYPE_NONE, &mut view));
        assert_eq!((view.data.cast::<f32>().read(), view.device.ordinal), (1.0, 1));
        refused(batch(0, &mut results), UMBO_STATUS_INVALID_ARGUMENT, "values");
        let mut copies = ptr::null_mut();
        let plain = value(&[4.0]);
        ok(umbo_strategy_broadcast_to(s, plain, &destinations[1], &mut copies));
        assert_eq!(info(copies).item_count, 2);
        for handle in [made, results, plain, copies] {
            umbo_release(handle.cast(), UMBO_HANDLE_VALUE);
        }
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
    assert_eq!(live(), before);
}

unsafe extern "C-unwind" fn rename_and_halve(
    request: *mut umbo_variable_request,
    devices: *mut c_void,
    variable: *mut *mut umbo_variable,
) -> umbo_status {
    // SAFETY: the request is lent for the call; the user data is the list.
    unsafe {
        let (mut info, mut initial) = (umbo_variable_request_info::default(), ptr::null_mut());
        ok(umbo_variable_request_get_info(request, &mut info));
        ok(umbo_variable_request_initial_value(request, &mut initial));
        let devices = &mut *devices.cast::<Vec<String>>();
        devices.push(match info.device.is_null() {
            true => format!("{} not placed", text(info.name)),
            false => format!("{} placed", text(info.name)),
        });
        let half = floats(&elements(initial).iter().map(|x| x / 2.0).collect::<Vec<_>>());
        ok(umbo_variable_request_set_initial_value(request, half));
        // As it is, and then changed.
        ok(umbo_variable_request_set_info(request, &info));
        ok(umbo_variable_request_get_info(request, &mut info));
        info.name = c"renamed".as_ptr();
        info.trainable = 0;
        info.aggregation = UMBO_AGGREGATION_MEAN;
        info.synchronization = UMBO_SYNCHRONIZATION_ON_READ;
        ok(umbo_variable_request_set_info(request, &info));
        let wrong = umbo_variable_request_info { aggregation: 9, ..info };
        let status = umbo_variable_request_set_info(request, &wrong);
        refused(status, UMBO_STATUS_INVALID_ARGUMENT, "info.aggregation");
        let wrong = umbo_variable_request_info { name: ptr::null(), ..info };
        let status = umbo_variable_request_set_info(request, &wrong);
        refused(status, UMBO_STATUS_INVALID_ARGUMENT, "info.name");
        let mut info = umbo_variable_request_info::default();
        ok(umbo_variable_request_get_info(request, &mut info));
        assert_eq!((info.trainable, info.aggregation, info.synchronization), (0, 2, 3));
        assert_eq!(text(info.name), "renamed");
        umbo_release(initial.cast(), UMBO_HANDLE_TENSOR);
        umbo_release(half.cast(), UMBO_HANDLE_TENSOR);
        umbo_variable_request_next(request, variable)
    }
}

unsafe extern "C-unwind" fn count_destroys(user_data: *mut c_void) {
    // SAFETY: the user data is the list.
    unsafe { (*user_data.cast::<Vec<String>>()).push("destroyed".into()) }
}

#[test]
fn creators_see_and_change_requests() {
    let _alone = alone();
    let before = live();
    let s = strategy(2);
    let mut seen: Vec<String> = Vec::new();
    let list: *mut c_void = (&raw mut seen).cast();
    // SAFETY: the handles are live, the outputs are variables, the list outlives the scope.
    unsafe {
        let creator = Some(rename_and_halve as _);
        let (mut scope, mut info) = (ptr::null_mut(), umbo_variable_info::default());
        ok(umbo_variable_creator_scope_enter(creator, list, Some(count_destroys), &mut scope));
        let v = variable(s, c"v", &[4.0]);
        assert_eq!(stored(v), [2.0]);
        ok(umbo_variable_get_info(v, &mut info));
        assert_eq!(text(info.name), "renamed");
        ok(umbo_scope_exit(scope));
        refused(
            umbo_variable_creator_scope_enter(None, list, Some(count_destroys), &mut scope),
            UMBO_STATUS_INVALID_ARGUMENT,
            "creator",
        );
        umbo_release(v.cast(), UMBO_HANDLE_VARIABLE);
        umbo_release(s.cast(), UMBO_HANDLE_STRATEGY);
    }
    assert_eq!(seen, ["v placed", "destroyed", "destroyed"]);
    assert_eq!(live(), before);
}

#[test]
fn a_resolver_names_jobs_and_tasks() {
    let _alone = alone();
    let before = live();
    // SAFETY: the handles are live, the texts texts, the outputs variables.
    unsafe {
        let config = c"{\"cluster\": {\"worker\": [\"a:1\", \"b:2\"], \"ps\": [\"c:3\"]},
                        \"task\": {\"type\": \"worker\", \"index\": 1}}";
        let (mut own, mut broken) = (ptr::null_mut(), ptr::null_mut());
        ok(umbo_cluster_resolver_from_tf_config(config.as_ptr(), &mut own));
        let mut info = umbo_cluster_resolver_info::default();
        ok(umbo_cluster_resolver_get_info(own, &mut info));
        assert_eq!((info.job_count, info.task_index), (2, 1));
        assert_eq!((info.rank, info.rank_count), (1, 2));
        assert_eq!(text(info.task_type), "worker");
        let (mut count, mut number, mut name) = (0, 0, ptr::null());
        ok(umbo_cluster_resolver_job(own, 1, &mut name, &mut count));
        assert_eq!((text(name).as_str(), count), ("worker", 2));
        let status = umbo_cluster_resolver_job(own, 2, &mut name, &mut count);
        refused(status, UMBO_STATUS_OUT_OF_RANGE, "[0, 2)");
        ok(umbo_cluster_resolver_task(own, c"worker".as_ptr(), 1, &mut number, &mut name));
        assert_eq!((number, text(name).as_str()), (1, "b:2"));
        let status = umbo_cluster_resolver_task(own, c"ps".as_ptr(), 1, &mut number, &mut name);
        refused(status, UMBO_STATUS_OUT_OF_RANGE, "[0, 1)");
        let status = umbo_cluster_resolver_task(own, c"chief".as_ptr(), 0, &mut number, &mut name);
        refused(status, UMBO_STATUS_NOT_FOUND, "'chief'");
        let status = umbo_cluster_resolver_from_tf_config(c"{\"cluster\": ".as_ptr(), &mut broken);
        refused(status, UMBO_STATUS_INVALID_ARGUMENT, "line 1, column 12");
        umbo_release(own.cast(), UMBO_HANDLE_CLUSTER_RESOLVER);
    }
    assert_eq!(live(), before);
}
