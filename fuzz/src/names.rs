//! Names of devices, and descriptions of clusters.

use umbo_core::cluster::resolver::ClusterResolver;
use umbo_core::device::DeviceId;
use umbo_core::device::name::DeviceName;

/// The canonical form of an accepted name is a name of the same device.
pub fn device(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let defaults = DeviceName::local(DeviceId::HOST);
    if let Ok(name) = DeviceName::parse(text, &defaults) {
        let canonical = name.to_string();
        let again = DeviceName::parse(&canonical, &defaults).expect("a canonical name");
        assert_eq!((&again, again.to_string()), (&name, canonical));
    }
}

pub fn device_seeds() -> Vec<Vec<u8>> {
    let names = [
        "CPU:0",
        "/cpu:1",
        "/job:worker/replica:0/task:3/device:GPU:2",
        "gpu:*",
        "",
        "CPU",
    ];
    names.map(|name| name.as_bytes().to_vec()).to_vec()
}

/// A cluster that is accepted has the task that it names.
pub fn cluster(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(resolver) = ClusterResolver::parse(text, "cluster") else {
        return;
    };
    for job in resolver.jobs() {
        let tasks = resolver.tasks(job.as_str()).expect("a job that is listed");
        std::hint::black_box(
            tasks
                .map(|(index, address)| index + address.as_str().len())
                .sum::<usize>(),
        );
    }
    if let Some(place) = resolver.place() {
        assert!(place.rank < place.size);
        assert!(resolver.task_type().is_some() && resolver.task_index().is_some());
    }
}

pub fn cluster_seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"cluster":{"worker":["a:1","b:2"],"chief":["c:3"]},
            "task":{"type":"worker","index":1}}"#,
        r#"{"cluster":{"ps":{"0":"a","7":"b"}},"task":{"type":"ps","index":"7"}}"#,
        "{}",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
