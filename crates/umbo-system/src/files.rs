//! Files: opening, reading at an offset, telling them apart, and what a new version of a file takes
//! over from the old one.

pub use crate::platform::files::{
    FileIdentity, Folder, canonical, has_name, keep_attributes, limit_access, open, read_exact_at,
    synchronise, too_many_links, without_waiting,
};

#[cfg(test)]
mod tests {
    use std::fs::{self, File, OpenOptions};

    use super::*;
    use crate::libraries::Library;

    #[test]
    fn a_file_is_told_from_others_and_from_what_has_its_name_later() {
        let folder = std::env::temp_dir().join(format!("umbo-system-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        let other = folder.join("b");
        fs::write(&path, b"0123456789").unwrap();
        fs::write(&other, b"").unwrap();
        let file = open(OpenOptions::new().read(true), &path).unwrap();
        let identity = |file: &File| FileIdentity::of(file).unwrap();
        assert_eq!(identity(&file), identity(&File::open(&path).unwrap()));
        assert_ne!(identity(&file), identity(&File::open(&other).unwrap()));
        let mut read = [0; 4];
        read_exact_at(&file, &mut read, 5).unwrap();
        assert_eq!(&read, b"5678");
        assert!(read_exact_at(&file, &mut read, 7).is_err());
        assert_eq!(identity(&file), FileIdentity::at(&path).unwrap());
        let known = FileIdentity::known(&path, &file.metadata().unwrap());
        assert_eq!(identity(&file), known.unwrap());
        assert!(has_name(&file).unwrap());
        fs::remove_file(&path).unwrap();
        // Wine removes the name when the last handle is closed, and does not tell meanwhile.
        let is_wine = !Library::program().symbol(c"wine_get_version").is_null();
        assert!(is_wine || !has_name(&file).unwrap());
        drop(file);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_is_locked_by_one_at_a_time() {
        let path = std::env::temp_dir().join(format!("umbo-größe-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let path = canonical(&path).unwrap();
        let [first, second] = [(); 2].map(|()| Folder::open(&path).unwrap());
        assert_eq!(first.identity().unwrap(), FileIdentity::at(&path).unwrap());
        assert!(first.try_lock() && first.try_lock() && !second.try_lock());
        first.unlock();
        assert!(second.try_lock() && !first.try_lock());
        drop(second);
        assert!(first.try_lock());
        first.synchronise().unwrap();
        assert!(Folder::open(&path.join("there is none")).is_err());
        fs::remove_dir_all(&path).unwrap();
    }
}
