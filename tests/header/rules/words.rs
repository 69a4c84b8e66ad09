//! One word, and one type, for each thing.

use std::collections::BTreeSet;

use super::{comments, declarations, functions, headers, name_of};

#[test]
fn a_number_of_things_is_a_count() {
    // What the field calls a size: of a batch, of a buffer of elements; and that of a struct.
    let sizes = [
        "struct_size",
        "batch_size",
        "buffer_size",
        "per_replica_buffer_size",
        "global_batch_size",
    ];
    for (place, declaration) in declarations() {
        let name = name_of(&declaration);
        let parts: Vec<_> = name.split('_').collect();
        assert!(!parts.contains(&"num"), "{place}: {declaration}");
        let is_size = parts.contains(&"size") && !sizes.contains(&name);
        assert!(!is_size, "{place}: {declaration}");
    }
    for (_, text) in headers() {
        for (function, _) in functions(text) {
            let is_size = function.ends_with("_size") && !function.ends_with("_batch_size");
            assert!(!function.contains("_num_") && !is_size, "{function}");
        }
    }
}

#[test]
fn only_information_is_got() {
    for (_, text) in headers() {
        for (function, _) in functions(text) {
            let got = function.contains("_get_");
            assert!(
                !got || function.ends_with("info"),
                "{function}: a getter has no verb"
            );
        }
    }
}

#[test]
fn bytes_have_one_type() {
    let mut seen = 0;
    for (place, declaration) in declarations() {
        if name_of(&declaration).ends_with("bytes") {
            let kind = declaration.trim_start_matches("const ");
            assert!(
                kind.starts_with("size_t") || declaration.contains("void *"),
                "{place}: {declaration}"
            );
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen}");
}

#[test]
fn words_are_those_of_the_field() {
    let not_ours = ["most", "longest", "withdraw", "room", "anew", "told"];
    for (place, declaration) in declarations() {
        let name = name_of(&declaration);
        let wrong = name.split('_').find(|word| not_ours.contains(word));
        // `keep` alone was the number of checkpoints that are kept.
        assert!(wrong.is_none() && name != "keep", "{place}: {declaration}");
    }
    for (_, text) in headers() {
        for (function, _) in functions(text) {
            let wrong = function.split('_').find(|word| not_ours.contains(word));
            assert_eq!(wrong, None, "{function}");
        }
    }
}

#[test]
fn a_rank_is_a_process() {
    let of_processes = [
        "communicator",
        "cluster",
        "strategy",
        "rank",
        "input_context",
        "value_context",
        "split",
    ];
    for (place, declaration) in declarations() {
        if name_of(&declaration) == "rank" {
            let fits = of_processes.iter().any(|word| place.contains(word));
            assert!(
                fits,
                "{place}: {declaration}: a number of dimensions is ndim"
            );
        }
    }
}

#[test]
fn comments_say_what_is_their_own() {
    // What core.h says for all; names instead of -1; words that nobody uses.
    let not_here = [
        "an invalid handle",
        "not a valid handle",
        "a null pointer",
        "there is no memory",
        "is told",
        "whoever",
        "of all but",
        "starting value",
    ];
    let mut wrong = BTreeSet::new();
    for (header, text) in headers() {
        for line in comments(text) {
            let number = line.contains(" -1 ")
                || line.contains(" -1:")
                || line.contains(" -1.")
                || line.contains(" -1;");
            // core.h says it for all.
            let is_wrong = |words: &&str| line.contains(words) && header != "core.h";
            if number || not_here.iter().any(is_wrong) {
                wrong.insert(format!("{header}: {line}"));
            }
        }
    }
    let list = wrong.into_iter().collect::<Vec<_>>();
    assert!(list.is_empty(), "{}", list.join("\n"));
}

/// The functions of a header, each with the comment above it and its parameters.
fn documented(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for part in text.split("/**").skip(1) {
        let Some((comment, rest)) = part.split_once("*/") else {
            continue;
        };
        let declaration = rest.trim_start().trim_start_matches("UMBO_MUST_USE ");
        if !["UMBO_API ", "static inline "]
            .iter()
            .any(|start| declaration.starts_with(start))
        {
            continue;
        }
        let Some((head, parameters)) = declaration.split_once('(') else {
            continue;
        };
        let name = head.rsplit([' ', '*']).next().expect("a part");
        let lines = comment.lines().map(|line| line.trim_matches([' ', '*']));
        found.push((
            name.to_owned(),
            lines.collect::<Vec<_>>().join(" ").trim().to_owned(),
            parameters.split(')').next().expect("a part").to_owned(),
        ));
    }
    found
}

#[test]
fn a_getter_says_that_a_handle_is_new() {
    // It lends its context.
    let lends = ["umbo_replica_context_current"];
    let mut seen = 0;
    for (_, text) in headers() {
        for (function, comment, parameters) in documented(text) {
            let returns_handle = parameters.split(',').any(|one| {
                let one = one.trim_start();
                one.starts_with("umbo_") && one.contains(" **") && !one.contains("_fn")
            });
            let first = comment.split(". ").next().expect("a part");
            if !returns_handle || !first.starts_with("Gets ") || lends.contains(&&*function) {
                continue;
            }
            assert!(first.contains("new handle"), "{function}: {first}");
            seen += 1;
        }
    }
    assert!(seen > 14, "{seen}");
}

/// What a function is about stands first in its name; what concerns the whole library, or the
/// thread, has no noun.
#[test]
fn functions_begin_with_a_noun() {
    let verbs = ["set", "has", "current", "default", "convert", "get", "in"];
    let of_library = [
        "umbo_set_last_error",
        "umbo_set_log_callback",
        "umbo_set_worker_count",
        // TensorFlow's name.
        "umbo_in_cross_replica_context",
    ];
    for (_, text) in headers() {
        for (function, _) in functions(text) {
            let word = function.split('_').nth(1).expect("a part");
            assert!(
                !verbs.contains(&word) || of_library.contains(&&*function),
                "{function}: the noun comes first"
            );
        }
    }
}

/// Handles in a list are those that a program has: no caller casts.
#[test]
fn lists_have_handles_as_programs_have_them() {
    for (place, declaration) in declarations() {
        let is_list = declaration.contains("*const *") && declaration.contains("umbo_");
        // A destination is a struct of the program's, and may be const.
        let is_const = declaration.starts_with("const ") && !declaration.contains("destination");
        assert!(!(is_list && is_const), "{place}: {declaration}");
    }
}
