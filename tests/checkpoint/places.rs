//! What becomes of the files that a save finds in its place: links, modes, things that are not
//! files, and names.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use umbo_core::checkpoint::arrays::{load_npy, load_npz, save_npy, save_npz};
use umbo_core::checkpoint::atomic::AtomicFile;
use umbo_core::checkpoint::{Manager, ManagerOptions};
use umbo_core::device::DeviceId;
use umbo_core::error::{Result, Status};
use umbo_core::input::Dataset;
use umbo_core::tensor::Tensor;

use crate::scene::{Feature, Folder, Scene, bytes, shape};

/// A function that writes a file, and one that reads it.
type Format<'a> = (
    &'a str,
    &'a dyn Fn(&Path) -> Result<()>,
    &'a dyn Fn(&Path) -> Result<()>,
);

fn with_formats(test: impl Fn(&Format<'_>)) {
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let array = Tensor::from_slice::<f32>(&[1.0, 2.0], shape(&[2]), DeviceId::HOST).unwrap();
    let checkpoint = &scene.checkpoint;
    let formats: [Format<'_>; 4] = [
        ("checkpoint", &|path| checkpoint.save(path), &|path| {
            checkpoint.restore(path)
        }),
        ("weights", &|path| checkpoint.save_weights(path), &|path| {
            checkpoint.load_weights(path, None)
        }),
        ("npy", &|path| save_npy(&array, path), &|path| {
            load_npy(path).map(drop)
        }),
        ("npz", &|path| save_npz(&[("a", &array)], path), &|path| {
            load_npz(path, "a").map(drop)
        }),
    ];
    formats.iter().for_each(test);
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).unwrap().is_symlink()
}

/// Links stay, whatever leads to the file: one link or several, of the same folder or of another,
/// and to a file that is made by the save.
#[test]
fn a_save_through_a_link_replaces_its_target() {
    with_formats(|(format, save, load)| {
        let folder = Folder::new();
        fs::create_dir(folder.path("disk")).unwrap();
        for (name, text) in [
            ("relative", Path::new("disk/file").to_owned()),
            ("absolute", folder.path("disk/file")),
            ("around", Path::new("disk/../disk/./file").to_owned()),
            ("twice", Path::new("relative").to_owned()),
        ] {
            symlink(text, folder.path(name)).unwrap();
            for exists in [false, true] {
                let case = format!("{format}, {name}, {exists}");
                let link = folder.path(name);
                let target = folder.path("disk/file");
                match exists {
                    true => fs::write(&target, "old").unwrap(),
                    false => drop(fs::remove_file(&target)),
                }
                save(&link).expect(&case);
                assert!(is_link(&link) && !is_link(&target), "{case}");
                for path in [&link, &target] {
                    load(path).expect(&case);
                }
                assert_eq!(
                    fs::read_dir(folder.path("disk")).unwrap().count(),
                    1,
                    "{case}"
                );
            }
        }
        assert_eq!(
            folder.names(),
            ["absolute", "around", "disk", "relative", "twice"]
        );
    });
}

/// A device, as root makes one; nothing if the system does not permit that.
fn device(path: &Path) -> bool {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends in a zero. The device is that of /dev/null.
    unsafe { libc::mknod(name.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 3)) == 0 }
}

#[test]
fn what_is_not_a_file_is_neither_replaced_nor_waited_for() {
    with_formats(|(format, save, _)| {
        let folder = Folder::new();
        let pipe = CString::new(folder.path("pipe").as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends in a zero.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let _socket = UnixListener::bind(folder.path("socket")).unwrap();
        fs::create_dir(folder.path("folder")).unwrap();
        symlink("circle", folder.path("circle")).unwrap();
        symlink("new/", folder.path("slash")).unwrap();
        let mut kinds = vec!["pipe", "socket", "folder"];
        kinds.extend(device(&folder.path("device")).then_some("device"));
        let links = kinds.iter().map(|kind| format!("link to {kind}"));
        for (link, kind) in links.clone().zip(&kinds) {
            symlink(kind, folder.path(&link)).unwrap();
        }
        let names = kinds.iter().map(|kind| (*kind).to_owned());
        let others = ["circle", "slash", "folder/", "new/", "pipe/file"].map(str::to_owned);
        let before = folder.names();
        for name in names.chain(links).chain(others) {
            let path = folder.path(&name);
            let kind = |path: &Path| fs::symlink_metadata(path).map(|there| there.mode()).ok();
            let there = kind(&path);
            let refused = save(&path).expect_err(&name);
            assert_eq!(
                refused.status(),
                Status::InvalidArgument,
                "{format}, {name}: {refused}"
            );
            assert!(
                refused.to_string().contains(&name),
                "{format}, {name}: {refused}"
            );
            assert_eq!(
                (kind(&path), folder.names()),
                (there, before.clone()),
                "{format}, {name}"
            );
        }
    });
}

#[test]
fn a_new_file_has_the_mode_of_the_old_one() {
    let folder = Folder::new();
    fs::write(folder.path("usual"), "").unwrap();
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().mode() & 0o7777;
    with_formats(|(format, save, load)| {
        let path = folder.path("file");
        save(&path).unwrap();
        assert_eq!(mode("file"), mode("usual"), "{format}");
        for kept in [0o600, 0o640, 0o664, 0o444, 0o400, 0o666, 0o777] {
            fs::set_permissions(&path, Permissions::from_mode(kept)).unwrap();
            save(&path).unwrap();
            load(&path).unwrap();
            assert_eq!(mode("file"), kept, "{format}: {kept:o}");
        }
        fs::remove_file(&path).unwrap();
    });
}

/// As long as it is written, nobody may read more than they could of the old file. Root keeps the
/// owner, too.
#[test]
fn a_private_file_is_private_while_it_is_replaced() {
    let folder = Folder::new();
    let path = folder.path("file");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let others = std::os::unix::fs::chown(&path, Some(12345), Some(23456)).is_ok();
    let mut file = AtomicFile::create(&path).unwrap();
    file.write(b"new").unwrap();
    for name in folder.names() {
        assert_eq!(
            fs::metadata(folder.path(&name)).unwrap().mode() & 0o777,
            0o600,
            "{name}"
        );
    }
    file.finish().unwrap();
    let there = fs::metadata(&path).unwrap();
    assert!(!others || (there.uid(), there.gid()) == (12345, 23456));
    assert_eq!(
        (there.mode() & 0o777, bytes(&path)),
        (0o600, b"new".to_vec())
    );
}

/// The system's longest name has 255 bytes. What a killed process has left of it is found, too.
#[test]
fn names_are_as_long_as_the_system_permits() {
    with_formats(|(format, save, load)| {
        let folder = Folder::new();
        for length in [200, 225, 230, 240, 241, 242, 254, 255] {
            let path = folder.path(&"n".repeat(length));
            for _ in 0..2 {
                save(&path).unwrap_or_else(|error| panic!("{format}, {length}: {error}"));
                load(&path).unwrap();
            }
            assert_eq!(folder.names(), ["n".repeat(length)], "{format}");
            fs::remove_file(&path).unwrap();
        }
        let refused = save(&folder.path(&"n".repeat(256))).unwrap_err();
        assert_eq!(
            refused.status(),
            Status::InvalidArgument,
            "{format}: {refused}"
        );
        assert_eq!(folder.names().len(), 0, "{format}");
    });
    let folder = Folder::new();
    let name = "n".repeat(255);
    // A killed process neither finishes nor drops its file; here it is forgotten, and unlocked by
    // its copy's end.
    let left = AtomicFile::create(&folder.path(&name)).unwrap();
    let partial = folder.names().pop().unwrap();
    fs::copy(folder.path(&partial), folder.path("copy")).unwrap();
    drop(left);
    fs::rename(folder.path("copy"), folder.path(&partial)).unwrap();
    AtomicFile::create(&folder.path(&name))
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!(folder.names(), [name]);
}

/// Names on Unix are bytes.
#[test]
fn names_need_not_be_texts() {
    let folder = Folder::new();
    let odd = |text: &[u8]| folder.0.join(OsStr::from_bytes(text));
    for name in [
        &b"\xff\xfe caf\xe9"[..],
        b"\xff",
        b"line\nbreak",
        b"a\x80.npz",
    ] {
        with_formats(|(format, save, load)| {
            for _ in 0..2 {
                save(&odd(name)).unwrap_or_else(|error| panic!("{format}, {name:?}: {error}"));
                load(&odd(name)).unwrap();
            }
        });
        let rows = Tensor::from_slice::<f32>(&[1.0, 2.0], shape(&[2]), DeviceId::HOST).unwrap();
        save_npy(&rows, &odd(name)).unwrap();
        Dataset::from_npy_file(odd(name)).unwrap();
        fs::remove_file(odd(name)).unwrap();
    }
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let of_manager = odd(b"folder \xe9");
    let options = ManagerOptions {
        max_to_keep: 1,
        ..ManagerOptions::default()
    };
    let manager = Manager::new(Arc::clone(&scene.checkpoint), &of_manager, options).unwrap();
    for step in [1, 2] {
        manager.save(step, None, true).unwrap();
    }
    assert_eq!(manager.restore_latest().unwrap(), Some(2));
    assert_eq!(fs::read_dir(&of_manager).unwrap().count(), 1);
    let there: Vec<OsString> = fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(there, [OsString::from_vec(b"folder \xe9".to_vec())]);
}
