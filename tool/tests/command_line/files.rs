//! Files that commands read and write.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::assert_refused;
use crate::program::umbo;

/// A file that cannot be read or written is named, and is not a mistake of the command line.
#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let [history, uneven, trace] = ["named.csv", "uneven.csv", "named.json"]
        .map(|name| folder.join(name).to_str().unwrap().to_owned());
    fs::write(&history, "epoch,loss\n1,0.5\n").unwrap();
    fs::write(&uneven, "epoch,loss\n1,0.5\n2,0.4,7\n").unwrap();
    let step =
        "{\"name\":\"step\",\"cat\":\"step\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":2}";
    fs::write(&trace, format!("[\n{step}\n]\n")).unwrap();
    let nowhere = "no/such/folder/a.svg";
    let missing = format!("{nowhere}: No such file");
    let no_folder = "'no/such/folder': the folder to write to: No such file";
    for (arguments, problem) in [
        (
            &["trace", nowhere, "--html", "x.html", "--plot", "x.svg"][..],
            missing.as_str(),
        ),
        (&["doctor", nowhere], &missing),
        (&["doctor", nowhere, "--json"], &missing),
        (
            &["plot", "no/such/folder/a.csv"],
            "no/such/folder/a.csv: No such file",
        ),
        (&["trace", &trace, "--html", nowhere], no_folder),
        (&["trace", &trace, "--plot", nowhere], no_folder),
        (&["plot", &history, "-o", nowhere], no_folder),
        (&["bench", "run", "--plot", nowhere], no_folder),
        (&["bench", "run", "--plot", nowhere], no_folder),
        (&["bench", "reduce", "--plot", nowhere], no_folder),
        (&["bench", "break-even", "--plot", nowhere], no_folder),
        (
            &["trace", &history, "--html", "x.html"],
            "named.csv: the first line is not '['",
        ),
        (
            &["trace", &trace, "--plot", "x.svg", "--step", "9"],
            "named.json: it has no step 9",
        ),
        (
            &["plot", &uneven],
            "uneven.csv: line 3 has 3 values, but the first line names 2 columns",
        ),
        (&["plot", "."], ".: Is a directory"),
    ] {
        let output = umbo(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(
            message.starts_with("umbo: ") && message.contains(problem),
            "{arguments:?}: {message}"
        );
        // Once, without a word of other command lines.
        assert_eq!(message.lines().count(), 1, "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    for (arguments, option) in [
        (&["trace", &trace, "--plot", "x.jpg"][..], "ends in .svg"),
        (&["plot", &history, "-o", "x.jpg"], "ends in .svg"),
    ] {
        assert_refused(arguments, option);
    }
}

/// Drawings and pages replace files as a whole, through links, and nothing but files.
#[test]
fn outputs_are_files() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("outputs");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("folder.svg")).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    fs::write(path("history.csv"), "epoch,loss\n1,0.5\n").unwrap();
    let step = r#"{"name":"step","cat":"step","ph":"X","pid":1,"tid":1,"ts":1,"dur":2}"#;
    fs::write(path("trace.json"), format!("[\n{step}\n]\n")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(path("pipe.svg"))
            .status()
            .unwrap()
            .success()
    );
    fs::write(path("target.svg"), "old").unwrap();
    for (link, target) in [("link.svg", "target.svg"), ("piped.svg", "pipe.svg")] {
        std::os::unix::fs::symlink(target, path(link)).unwrap();
    }
    for command in [
        ["plot", "history.csv", "-o"],
        ["trace", "trace.json", "--html"],
    ] {
        let [command, input, option] = command;
        for refused in ["pipe.svg", "piped.svg", "folder.svg"] {
            let output = umbo(&[command, &path(input), option, &path(refused)]);
            let message = String::from_utf8(output.stderr).unwrap();
            assert_eq!(
                output.status.code(),
                Some(1),
                "{command}, {refused}: {message}"
            );
            assert!(message.contains(refused), "{command}, {refused}: {message}");
        }
        fs::write(path("target.svg"), "old").unwrap();
        let output = umbo(&[command, &path(input), option, &path("link.svg")]);
        assert!(output.status.success(), "{command}");
        assert!(
            fs::symlink_metadata(path("link.svg")).unwrap().is_symlink(),
            "{command}"
        );
        assert_ne!(
            fs::read_to_string(path("target.svg")).unwrap(),
            "old",
            "{command}"
        );
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 7);
}

/// Nothing is written over what a command reads, by whatever name it goes.
#[test]
fn output_must_differ_from_input() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kept");
    fs::create_dir_all(&folder).unwrap();
    let [file, link, page] = ["kept.svg", "link.svg", "page.svg"].map(|name| {
        let path = folder.join(name);
        let _ = fs::remove_file(&path);
        path.to_str().unwrap().to_owned()
    });
    let around = folder.join("../kept/kept.svg");
    let around = around.to_str().unwrap();
    let trace = "[\n]\n";
    let history = "epoch,loss\n1,0.5\n";
    std::os::unix::fs::symlink(&file, &link).unwrap();
    fs::write(&file, trace).unwrap();
    for name in [&file, &link, around] {
        for option in ["--html", "--plot"] {
            assert_refused(
                &["trace", &file, option, name],
                "is the trace itself; give another name",
            );
        }
    }
    assert_refused(
        &["trace", &file, "--html", &page, "--plot", &page],
        "is the page of --html",
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), trace);
    fs::write(&file, history).unwrap();
    for output in [
        &["--output", &file][..],
        &["-o", &link],
        &["-o", around],
        &[],
    ] {
        let arguments = [&["plot", &file], output].concat();
        assert_refused(&arguments, "is the history itself; give another name");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), history);
}
