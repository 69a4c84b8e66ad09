//! Variables alone, from files of Umbo's and of others'.

use std::collections::HashMap;
use std::fs;

use safetensors::tensor::{Dtype, TensorView, serialize};
use umbo::error::Status;
use umbo::strategy::variables::read;

use crate::scene::{Feature, Folder, Scene, values};

#[test]
fn weights_go_from_one_training_to_another() {
    let folder = Folder::new();
    let (whole, weights) = (folder.path("whole"), folder.path("weights"));
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
    assert!(from.checkpoint.restore(&weights).unwrap_err().to_string().contains("no optimizer"));
}

#[test]
fn a_file_of_others_is_read_by_a_mapping_of_names() {
    let folder = Folder::new();
    let path = folder.path("others");
    let (wide, bias) = ([2.5f64; 210].map(f64::to_le_bytes), 7.5f32.to_le_bytes());
    let tensors = HashMap::from([
        ("encoder.weight", TensorView::new(Dtype::F64, vec![70, 3], wide.as_flattened()).unwrap()),
        ("encoder.bias", TensorView::new(Dtype::F32, vec![], &bias).unwrap()),
        ("more", TensorView::new(Dtype::F8_E5M2, vec![4], &bias).unwrap()),
    ]);
    fs::write(&path, serialize(tensors, None).unwrap()).unwrap();
    let scene = Scene::new("adam", Feature::Plain, 2);
    let load = |pairs: &[(&str, &str)]| scene.checkpoint.load_weights(&path, Some(pairs));
    load(&[("model/wide", "encoder.weight"), ("model/dense/bias", "encoder.bias")]).unwrap();
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
        "no tensor 'encoder.bais'",
        "'model/wide' (in the file 'encoder.bias') is float64",
        "F8_E5M2",
        "[70, 3]",
        "7 mismatches",
    ] {
        assert!(error.to_string().contains(part), "'{part}' is not in: {error}");
    }
    assert_eq!(load(&[("wide", "encoder.weight")]).unwrap_err().status(), Status::NotFound);
    assert_eq!(scene.bits(), before);
    let error = scene.checkpoint.restore(&path).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
}
