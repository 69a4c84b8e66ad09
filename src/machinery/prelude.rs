//! The names that the files of the C layer use: the headers' declarations, the machinery, and
//! what is behind most handles.

pub(crate) use std::ffi::{c_char, c_void};
pub(crate) use std::ptr;
pub(crate) use std::sync::Arc;

pub(crate) use super::arguments::{self, *};
pub(crate) use super::boundary::{boundary, c_call};
pub(crate) use super::c_string::{c_string, device_name};
pub(crate) use super::callback::{self, must_store, stored};
pub(crate) use super::constants::{Constant, constants, one_of};
pub(crate) use super::handle::{self, LentHandle, make, reserve};
pub(crate) use super::options::{self, c_struct};
pub(crate) use super::status;
pub(crate) use super::user_data::UserData;
pub(crate) use crate::nouns::special_numbers::{described, duration, least_unless, unless};
pub(crate) use crate::*;
pub(crate) use umbo_core::error::{Error, Result};
pub(crate) use umbo_core::input::Dataset;
pub(crate) use umbo_core::strategy::{ReplicaContext, Strategy};
pub(crate) use umbo_core::tensor::{DType, Tensor};
pub(crate) use umbo_core::values::Value;
pub(crate) use umbo_core::values::variable::Variable;
