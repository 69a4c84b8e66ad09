//! Stand-ins for functions of the header that are still to come.
#![allow(non_camel_case_types)]
use std::ffi::{c_char, c_void};

use umbo::ffi::*;

use crate::failure::told;
use crate::handle::Object;

macro_rules! pending {
    ($($name:ident($($type:ty),*);)*) => {$(
        pub unsafe extern "C" fn $name($(_: $type),*) -> umbo_status {
            told(UMBO_UNIMPLEMENTED, concat!(stringify!($name), " is to come"));
            UMBO_UNIMPLEMENTED
        }
    )*};
}
type CV = *const umbo_value;
type OV = *mut *mut umbo_value;
type S = *mut umbo_strategy;
type OD = *mut *mut umbo_dataset;
pub struct umbo_element_spec;
impl Object for umbo_element_spec {
    fn release(_: *const Self) {}
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct umbo_input_context {
    pub struct_size: usize,
    pub num_input_pipelines: i32,
    pub input_pipeline_id: i32,
    pub num_replicas_in_sync: i32,
    pub reserved0: i32,
}
pub type umbo_dataset_fn = Option<
    unsafe extern "C-unwind" fn(
        *const umbo_input_context,
        *mut c_void,
        *mut *mut umbo_dataset,
    ) -> umbo_status,
>;
pub const UMBO_SPLIT_CEIL: i32 = 0;
pub const UMBO_SPLIT_BALANCED: i32 = 1;
pending! {










    
    umbo_dataset_from_tensors(CV, OD); umbo_dataset_range(i64, i64, i64, OD);
    umbo_dataset_elements(i32, *const *const umbo_tensor, OD);
    umbo_dataset_concatenate(i32, *const *const umbo_dataset, OD);
    umbo_dataset_padded_batch(*const umbo_dataset, i64, i32, OD);
    umbo_dataset_rebatch(*const umbo_dataset, i32, *const i64, i32, OD);
    umbo_dataset_shard(*const umbo_dataset, i64, i64, OD);
    umbo_dataset_cache(*const umbo_dataset, OD);
    umbo_input_context_per_replica_batch_size(*const umbo_input_context, i64, *mut i64);
    umbo_strategy_make_numpy_dataset(S, CV, OD);
    umbo_strategy_distribute_datasets_from_function(S, umbo_dataset_fn, *mut c_void, *const umbo_distribute_options, *mut *mut umbo_distributed_dataset);
    umbo_iterator_next_as_optional(*mut umbo_iterator, *mut i32, OV);
    umbo_dataset_element_spec(*const umbo_dataset, *mut *mut umbo_element_spec);
    umbo_distributed_dataset_element_spec(*const umbo_distributed_dataset, *mut *mut umbo_element_spec);
    umbo_iterator_element_spec(*const umbo_iterator, *mut *mut umbo_element_spec);
    umbo_element_spec_kind_of(*const umbo_element_spec, *mut i32);
    umbo_element_spec_count(*const umbo_element_spec, *mut i32);
    umbo_element_spec_item(*const umbo_element_spec, i32, *mut *mut umbo_element_spec);
    umbo_element_spec_field_name(*const umbo_element_spec, i32, *mut *const c_char);
    umbo_element_spec_leaf(*const umbo_element_spec, *mut i32, *mut i32, *mut i64);
    umbo_distributed_dataset_cardinality(*const umbo_distributed_dataset, *mut i64);
}
