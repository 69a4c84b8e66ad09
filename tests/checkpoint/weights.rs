//! Variables alone, from files of Umbo's and of others'.

use std::collections::HashMap;
use std::fs;

use half::bf16;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use umbo_core::checkpoint::LoadWeightsOptions;
use umbo_core::checkpoint::reader::CheckpointFile;
use umbo_core::error::Status;
use umbo_core::optimizer::{Settings, StateBits};
use umbo_core::strategy::variables::read;

use crate::scene::{Feature, Folder, Scene, bytes, values};

#[test]
fn weights_go_from_one_training_to_another() {
    let folder = Folder::new();
    let whole = folder.path("whole");
    let weights = folder.path("weights");
    let from = Scene::new("adam", Feature::Plain, 2);
    from.train(3);
    from.checkpoint.save(&whole).unwrap();
    from.checkpoint.save_weights(&weights).unwrap();
    assert!(fs::metadata(&weights).unwrap().len() < fs::metadata(&whole).unwrap().len());
    for path in [&whole, &weights] {
        let to = Scene::new("sgd", Feature::Plain, 1);
        to.checkpoint.load_weights(path, None).unwrap();
        assert_eq!(to.bits().0, from.bits().0);
        assert_eq!(to.trainers[0].0.iterations(), 0);
    }
    assert!(
        from.checkpoint
            .restore(&weights)
            .unwrap_err()
            .to_string()
            .contains("no optimizer")
    );
}

/// A checkpoint is of one type of weights. Weights alone go from float32 to bfloat16, rounded to
/// the nearest, and back as they are.
#[test]
fn weights_move_between_float32_and_bfloat16() {
    let folder = Folder::new();
    let path = folder.path("file");
    let load = |scene: &Scene| {
        let options = LoadWeightsOptions {
            convert_floats: true,
            ..LoadWeightsOptions::default()
        };
        let file = CheckpointFile::open(&path).unwrap();
        scene.checkpoint.load_weights_from(&file, options).unwrap();
    };
    let nearest = |bits: &[u64]| {
        // The weights are float32, of which `from_f64` would lose bits before it rounds.
        let nearest =
            |&bits: &u64| f64::from(bf16::from_f32(f64::from_bits(bits) as f32)).to_bits();
        bits.iter().map(nearest).collect::<Vec<u64>>()
    };
    let exact = Scene::new("adam", Feature::EightBits, 2);
    let rounded = Scene::new("adam", Feature::Rounding, 2);
    for (from, to, other) in [
        (&exact, &rounded, "float32"),
        (&rounded, &exact, "bfloat16"),
    ] {
        from.train(3);
        from.checkpoint.save(&path).unwrap();
        let before = to.bits();
        let refused = to.checkpoint.restore(&path).unwrap_err();
        assert_eq!(refused.status(), Status::InvalidArgument, "{refused}");
        for part in ["model/dense/kernel", other] {
            assert!(refused.to_string().contains(part), "{refused}");
        }
        assert_eq!(to.bits(), before);
        load(to);
        assert_eq!(to.bits().0[0], nearest(&from.bits().0[0]));
        assert_eq!(to.bits().0[1..], from.bits().0[1..]);
        to.train(2);
    }
}

/// The states of bfloat16 weights move between 8 bits and float32 as those of others do.
#[test]
fn states_of_bfloat16_weights_are_converted() {
    let folder = Folder::new();
    let path = folder.path("file");
    let in_full = || {
        let scene = Scene::new("adam", Feature::Rounding, 1);
        let settings = Settings {
            state_bits: StateBits::Full,
            ..scene.trainers[0].0.settings()
        };
        scene.trainers[0].0.configure(settings).unwrap();
        scene
    };
    let state_of = |scene: &Scene| {
        let state = scene.trainers[0].0.state(&scene.variables[0], "m").unwrap();
        values(&state)
    };
    let coded = Scene::new("adam", Feature::Rounding, 1);
    coded.train(3);
    coded.checkpoint.save(&path).unwrap();
    let full = in_full();
    full.checkpoint.restore(&path).unwrap();
    assert_eq!(full.bits(), coded.bits());
    assert_eq!(state_of(&full), state_of(&coded));
    full.train(2);
    full.checkpoint.save(&path).unwrap();
    coded.checkpoint.restore(&path).unwrap();
    assert_eq!(full.bits(), coded.bits());
    let [before, after] = [state_of(&full), state_of(&coded)];
    let largest = before
        .iter()
        .fold(0.0_f64, |most, value| most.max(value.abs()));
    let differ = before
        .iter()
        .zip(&after)
        .map(|(one, other)| (one - other).abs());
    assert!(before != after && differ.fold(0.0, f64::max) < largest / 50.0);
    coded.train(1);
}

#[test]
fn a_file_of_others_is_read_by_a_mapping_of_names() {
    let folder = Folder::new();
    let path = folder.path("others");
    let wide = [2.5f64; 210].map(f64::to_le_bytes);
    let bias = 7.5f32.to_le_bytes();
    let tensors = HashMap::from([
        (
            "encoder.weight",
            TensorView::new(Dtype::F64, vec![70, 3], wide.as_flattened()).unwrap(),
        ),
        (
            "encoder.bias",
            TensorView::new(Dtype::F32, vec![], &bias).unwrap(),
        ),
        (
            "more",
            TensorView::new(Dtype::F8_E5M2, vec![4], &bias).unwrap(),
        ),
    ]);
    fs::write(&path, serialize(tensors, None).unwrap()).unwrap();
    let scene = Scene::new("adam", Feature::Plain, 2);
    let load = |pairs: &[(&str, &str)]| scene.checkpoint.load_weights(&path, Some(pairs));
    load(&[
        ("model/wide", "encoder.weight"),
        ("model/dense/bias", "encoder.bias"),
    ])
    .unwrap();
    assert_eq!(values(&read(&scene.variables[2]).unwrap()), [2.5; 210]);
    assert_eq!(values(&read(&scene.variables[1]).unwrap()), [7.5]);

    let before = scene.bits();
    let wrong = [
        ("model/wide", "encoder.bias"),
        ("model/dense/bias", "encoder.bais"),
        ("model/dense/kernel", "more"),
        ("model/table", "encoder.weight"),
    ];
    let error = load(&wrong).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    for part in [
        "no tensor 'encoder.bais'; it has encoder.bias, encoder.weight, more",
        "'model/wide' (in the file 'encoder.bias') is float64",
        "F8_E5M2",
        "[70, 3]",
        "7 mismatches",
    ] {
        assert!(
            error.to_string().contains(part),
            "'{part}' is not in: {error}"
        );
    }
    assert_eq!(
        load(&[("wide", "encoder.weight")]).unwrap_err().status(),
        Status::NotFound
    );
    assert_eq!(scene.bits(), before);
    let error = scene.checkpoint.restore(&path).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
}

/// A model in two files with an index, of which nothing is believed that the files do not show.
#[test]
fn several_files_with_an_index_are_one() {
    let folder = Folder::new();
    let index = folder.path("model.safetensors.index.json");
    let wide = [2.5f64; 210].map(f64::to_le_bytes);
    let bias = 0x3fc0u16.to_le_bytes();
    let of_wide = || TensorView::new(Dtype::F64, vec![70, 3], wide.as_flattened()).unwrap();
    let of_bias = || TensorView::new(Dtype::BF16, vec![], &bias).unwrap();
    let write = |name: &str, tensors: Vec<(&str, TensorView<'_>)>| {
        fs::write(folder.path(name), serialize(tensors, None).unwrap()).unwrap();
    };
    let scene = Scene::new("adam", Feature::Plain, 2);
    let load = |text: &str| {
        fs::write(&index, text).unwrap();
        let pairs = [("model/wide", "m.wide"), ("model/dense/bias", "m.bias")];
        let options = LoadWeightsOptions {
            pairs: Some(&pairs),
            convert_floats: true,
            ..LoadWeightsOptions::default()
        };
        let file = CheckpointFile::open(&index)?;
        scene.checkpoint.load_weights_from(&file, options)
    };
    let right = r#"{"metadata": {"total_size": 1}, "weight_map": {"m.wide": "1", "m.bias": "2"}}"#;
    let before = scene.bits();
    let error = load(right).unwrap_err();
    assert_eq!(error.status(), Status::DataLoss);
    assert!(
        error.to_string().contains("its file '1' is missing"),
        "{error}"
    );
    write("1", vec![("m.wide", of_wide())]);
    write("2", vec![("m.bias", of_bias()), ("m.more", of_bias())]);
    for (wrong, message) in [
        (
            r#"{"weight_map": {"m.wide": "2"}}"#,
            "'2' does not have tensor 'm.wide'",
        ),
        (r#"{"weight_map": {"m.wide": "../1"}}"#, "is not the name"),
        (
            r#"{"weight_map": {"a": "1", "a": "2"}}"#,
            "in '1' and in '2'",
        ),
        ("{", "not an index"),
    ] {
        let error = load(wrong).unwrap_err();
        assert_eq!(error.status(), Status::DataLoss, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let error = load(r#"{"weight_map": {"m.wide": "1"}}"#).unwrap_err();
    assert!(error.to_string().contains("no tensor 'm.bias'"), "{error}");
    assert_eq!(scene.bits(), before);
    let loaded = load(right).unwrap();
    assert_eq!(loaded.unused, ["m.more"]);
    assert_eq!(values(&read(&scene.variables[2]).unwrap()), [2.5; 210]);
    assert_eq!(values(&read(&scene.variables[1]).unwrap()), [1.5]);
    let error = scene.checkpoint.restore(&index).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
    write("1", vec![("m.wide", of_wide()), ("m.bias", of_bias())]);
    let error = load(right).unwrap_err();
    assert!(
        error.to_string().contains("'m.bias' is in '1' and in '2'"),
        "{error}"
    );
}

/// A safetensors file with this header and these elements.
fn file_of(header: &str, elements: &[u8]) -> Vec<u8> {
    [
        &(header.len() as u64).to_le_bytes(),
        header.as_bytes(),
        elements,
    ]
    .concat()
}

/// What a file has for others does not keep anybody from what is wanted: a dtype of a later version
/// of the format, and metadata of another program under Umbo's name.
#[test]
fn what_is_not_wanted_does_not_matter() {
    let folder = Folder::new();
    let path = folder.path("others");
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let elements = [7.5f32.to_le_bytes(), [9; 4]].concat();
    let bias = r#""bias":{"dtype":"F32","shape":[],"data_offsets":[0,4]}"#;
    let later = r#""later":{"dtype":"F5_E3M1","shape":[2,3],"data_offsets":[4,8]}"#;
    for metadata in [
        "",
        r#""__metadata__":{"umbo":"a dog"},"#,
        r#""__metadata__":{"umbo":"{}"},"#,
        r#""__metadata__":{"umbo":"{\"format\":7}"},"#,
        r#""__metadata__":{"umbo":"[1, 2"},"#,
        r#""__metadata__":{"umbo.crc":"00000000"},"#,
    ] {
        fs::write(
            &path,
            file_of(&format!("{{{metadata}{bias},{later}}}"), &elements),
        )
        .unwrap();
        scene.train(1);
        let load = |name| {
            scene
                .checkpoint
                .load_weights(&path, Some(&[("model/dense/bias", name)]))
        };
        load("bias").unwrap();
        assert_eq!(
            values(&read(&scene.variables[1]).unwrap()),
            [7.5],
            "{metadata}"
        );
        let refused = load("later").unwrap_err();
        assert_eq!(
            refused.status(),
            Status::InvalidArgument,
            "{metadata}: {refused}"
        );
        assert!(
            refused.to_string().contains("F5_E3M1 in the file"),
            "{metadata}: {refused}"
        );
        let refused = scene.checkpoint.restore(&path).unwrap_err();
        assert_eq!(
            refused.status(),
            Status::InvalidArgument,
            "{metadata}: {refused}"
        );
    }
    // A header that is wrong elsewhere stays wrong.
    for wrong in [
        r#""w":{"dtype":"F5","shape":[2]}"#,
        r#""w":{"dtype":"F5","data_offsets":[9,4]}"#,
    ] {
        fs::write(&path, file_of(&format!("{{{bias},{wrong}}}"), &elements)).unwrap();
        let refused = scene.checkpoint.load_weights(&path, None).unwrap_err();
        assert_eq!(refused.status(), Status::DataLoss, "{wrong}: {refused}");
    }
}

/// Another program may write a checkpoint anew, in another layout, with the metadata that it had or
/// without. Only with tensors that it had, too, does it fit its metadata.
#[test]
fn a_checkpoint_that_was_rewritten_fits_its_metadata_or_has_none() {
    let folder = Folder::new();
    let whole = folder.path("whole");
    let path = folder.path("rewritten");
    let scene = Scene::new("adam", Feature::Plain, 1);
    scene.train(2);
    scene.checkpoint.save(&whole).unwrap();
    let file = bytes(&whole);
    let (_, header) = SafeTensors::read_metadata(&file).unwrap();
    let all = SafeTensors::deserialize(&file).unwrap().tensors();
    let rewrite = |tensors: &[(String, TensorView<'_>)], metadata| {
        let tensors = tensors.iter().map(|(name, view)| (name, view));
        let rewritten = serialize(tensors, metadata).unwrap();
        assert!(rewritten != file);
        fs::write(&path, rewritten).unwrap();
    };
    let pairs = [("model/wide", "model/wide")];
    let mut fewer = all.clone();
    fewer.retain(|(name, _)| name == "model/wide");

    rewrite(&all, header.metadata().clone());
    scene.train(1);
    scene.checkpoint.restore(&path).unwrap();
    scene.checkpoint.save(&path).unwrap();
    assert!(bytes(&path) == file);

    rewrite(&fewer, header.metadata().clone());
    for refused in [
        scene.checkpoint.restore(&path),
        scene.checkpoint.load_weights(&path, Some(&pairs)),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.status(), Status::DataLoss, "{refused}");
        assert!(
            refused.to_string().contains("leaves out the metadata"),
            "{refused}"
        );
    }

    rewrite(&fewer, None);
    scene.checkpoint.load_weights(&path, Some(&pairs)).unwrap();
    let refused = scene.checkpoint.restore(&path).unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument, "{refused}");

    // One of the two entries alone is damage, whatever the other one has become.
    for entry in ["umbo.checkpoint", "umbo.crc32"] {
        let mut metadata = header.metadata().clone().unwrap();
        metadata.remove(entry);
        rewrite(&all, Some(metadata));
        let refused = scene.checkpoint.restore(&path).unwrap_err();
        assert_eq!(refused.status(), Status::DataLoss, "{refused}");
        assert!(
            refused.to_string().contains(&format!("not '{entry}'")),
            "{refused}"
        );
    }
}
