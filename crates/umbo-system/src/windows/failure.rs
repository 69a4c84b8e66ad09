//! The only table from the error codes of Windows in the library.

use windows_sys::Win32::Foundation;

use crate::failure::Failure;

pub fn of_code(code: i32) -> Failure {
    match code as u32 {
        Foundation::ERROR_FILE_NOT_FOUND
        | Foundation::ERROR_PATH_NOT_FOUND
        | Foundation::ERROR_INVALID_DRIVE
        | Foundation::ERROR_DEV_NOT_EXIST
        | Foundation::ERROR_BAD_NETPATH
        | Foundation::ERROR_BAD_NET_NAME
        | Foundation::ERROR_MOD_NOT_FOUND => Failure::NotFound,
        Foundation::ERROR_ACCESS_DENIED
        | Foundation::ERROR_WRITE_PROTECT
        | Foundation::ERROR_PRIVILEGE_NOT_HELD
        | Foundation::ERROR_NETWORK_ACCESS_DENIED => Failure::NotPermitted,
        Foundation::ERROR_TOO_MANY_OPEN_FILES
        | Foundation::ERROR_NOT_ENOUGH_MEMORY
        | Foundation::ERROR_OUTOFMEMORY
        | Foundation::ERROR_HANDLE_DISK_FULL
        | Foundation::ERROR_DISK_FULL
        | Foundation::ERROR_FILE_TOO_LARGE
        | Foundation::ERROR_DISK_QUOTA_EXCEEDED
        | Foundation::ERROR_TOO_MANY_LINKS
        | Foundation::ERROR_NO_SYSTEM_RESOURCES
        | Foundation::ERROR_COMMITMENT_LIMIT => Failure::Exhausted,
        Foundation::ERROR_INVALID_NAME
        | Foundation::ERROR_INVALID_PARAMETER
        | Foundation::ERROR_BAD_PATHNAME
        | Foundation::ERROR_DIRECTORY
        | Foundation::ERROR_FILENAME_EXCED_RANGE
        | Foundation::ERROR_BUFFER_OVERFLOW
        | Foundation::ERROR_CANT_RESOLVE_FILENAME
        | Foundation::ERROR_NO_UNICODE_TRANSLATION => Failure::WrongPath,
        // A file that another program keeps for itself or has locked, and errors of networks.
        _ => Failure::Passing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_told_apart() {
        for (code, kind) in [
            (2, Failure::NotFound),
            (5, Failure::NotPermitted),
            (112, Failure::Exhausted),
            (123, Failure::WrongPath),
            (32, Failure::Passing),
        ] {
            assert_eq!(of_code(code), kind, "{code}");
        }
    }
}
