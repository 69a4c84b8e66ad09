//! Files: opening, reading at an offset, telling them apart, and what a new version of a file takes
//! over from the old one.

pub use crate::platform::files::{
    FileIdentity, has_name, keep_attributes, limit_access, open, read_exact_at, synchronise_folder,
    too_many_links, without_waiting,
};

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};

    use super::*;

    #[test]
    fn a_file_is_told_from_others_and_from_what_has_its_name_later() {
        let folder = std::env::temp_dir().join(format!("umbo-system-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        let other = folder.join("b");
        fs::write(&path, b"0123456789").unwrap();
        fs::write(&other, b"").unwrap();
        let file = open(OpenOptions::new().read(true), &path).unwrap();
        let identity = |file: &File| FileIdentity::of(&file.metadata().unwrap());
        assert_eq!(identity(&file), identity(&File::open(&path).unwrap()));
        assert_ne!(identity(&file), identity(&File::open(&other).unwrap()));
        let mut read = [0; 4];
        read_exact_at(&file, &mut read, 5).unwrap();
        assert_eq!(&read, b"5678");
        assert!(read_exact_at(&file, &mut read, 7).is_err());
        assert!(has_name(&file.metadata().unwrap()));
        fs::remove_file(&path).unwrap();
        assert!(!has_name(&file.metadata().unwrap()));
        synchronise_folder(&File::open(&folder).unwrap()).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
