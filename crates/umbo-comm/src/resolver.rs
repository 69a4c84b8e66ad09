//! The cluster of which a process is a part, in the form of the `TF_CONFIG` variable.
//!
//! ```json
//! {"cluster": {"worker": ["a:2222", "b:2222"], "ps": ["c:2222"]},
//!  "task": {"type": "worker", "index": 0}}
//! ```
//!
//! A central storage strategy works on one machine and does not use the cluster. The resolver is
//! for programs that branch on their task.

use std::collections::BTreeMap;
use std::env;

use serde_json::{Map, Value};

use super::launcher::{self, LaunchedRank};
use umbo_base::error::{Error, Result};
use umbo_base::text::{Text, shortened};

/// The environment variable with the configuration.
pub const VARIABLE: &str = "TF_CONFIG";

/// The jobs whose tasks train, in the order of their ranks.
const TRAINING: [&str; 2] = ["chief", "worker"];

/// The task that programs run beside a cluster for evaluation. The cluster need not list it.
const EVALUATOR: &str = "evaluator";

/// A cluster, and this process's place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterResolver {
    /// The jobs in the order of their names. Each has the addresses of its tasks, by task number.
    jobs: BTreeMap<Text, BTreeMap<usize, Text>>,
    task_type: Option<Text>,
    task_index: Option<usize>,
    place: Option<LaunchedRank>,
}

impl ClusterResolver {
    /// A resolver from the whole environment: the variable `TF_CONFIG` and those of launchers.
    ///
    /// Fails as [`ClusterResolver::parse`] and [`launcher::place`] do, and with INVALID_ARGUMENT,
    /// naming both, if they disagree.
    pub fn of_this_process() -> Result<ClusterResolver> {
        let launched = launcher::place(&|name| env::var(name).ok())?;
        ClusterResolver::from_environment()?.with_launcher(launched)
    }

    fn with_launcher(mut self, launched: Option<LaunchedRank>) -> Result<ClusterResolver> {
        match (self.place, launched) {
            (Some(configured), Some(launched)) if configured != launched => Err(invalid!(
                VARIABLE,
                "says rank {} of {}, and the launcher's variables say rank {} of {}; unset what \
                 is wrong",
                configured.rank,
                configured.size,
                launched.rank,
                launched.size
            )),
            (configured, launched) => {
                self.place = launched.or(configured);
                Ok(self)
            }
        }
    }

    /// A resolver from the variable `TF_CONFIG` of the environment. Without the variable, or if it
    /// is empty, the cluster is empty and there is no task.
    ///
    /// Fails as [`ClusterResolver::parse`] does.
    pub fn from_environment() -> Result<ClusterResolver> {
        match env::var(VARIABLE) {
            Ok(text) if !text.trim().is_empty() => ClusterResolver::parse(&text, VARIABLE),
            Ok(_) | Err(env::VarError::NotPresent) => Ok(ClusterResolver::default()),
            Err(env::VarError::NotUnicode(_)) => Err(invalid!(VARIABLE, "is not UTF-8")),
        }
    }

    /// A resolver from text in JSON. Fields other than `cluster` and `task` are ignored.
    ///
    /// Fails with INVALID_ARGUMENT, naming the place, for text that is not JSON or not of this
    /// form, and for a task that is not in the cluster. `argument` names the text in messages.
    pub fn parse(text: &str, argument: &'static str) -> Result<ClusterResolver> {
        let wrong = |problem: String| Error::invalid(argument, problem);
        let whole: Value =
            serde_json::from_str(text).map_err(|error| wrong(format!("is not JSON: {error}")))?;
        let whole = object(&whole, "the text").map_err(wrong)?;
        let jobs = match whole.get("cluster") {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(cluster) => object(cluster, "cluster")
                .and_then(|cluster| {
                    cluster
                        .iter()
                        .map(|(job, tasks)| Ok((job.as_str().into(), job_tasks(job, tasks)?)))
                        .collect()
                })
                .map_err(wrong)?,
        };
        let (task_type, task_index) = match whole.get("task") {
            None | Some(Value::Null) => (None, None),
            Some(task) => object(task, "task").and_then(task_of).map_err(wrong)?,
        };
        let mut resolver = ClusterResolver {
            jobs,
            task_type,
            task_index,
            place: None,
        };
        resolver.check_task().map_err(wrong)?;
        resolver.place = resolver.place_in_cluster();
        Ok(resolver)
    }

    /// The rank by the cluster. Chiefs come first, then workers; no other job has ranks.
    fn place_in_cluster(&self) -> Option<LaunchedRank> {
        let task_type = self.task_type.as_ref()?;
        let index = self.task_index?;
        let mut ranks = TRAINING.iter().flat_map(|&job| {
            let tasks = self.jobs.get(job).into_iter().flatten();
            tasks.map(move |(&index, _)| (job, index))
        });
        let size = ranks.clone().count();
        let rank = ranks.position(|(job, task)| task_type.as_str() == job && task == index)?;
        Some(LaunchedRank { rank, size })
    }

    /// The rank of this process in the training, if the configuration or a launcher says it.
    pub fn place(&self) -> Option<LaunchedRank> {
        self.place
    }

    fn check_task(&self) -> Result<(), String> {
        let Some(job) = self.task_type.as_ref().filter(|_| !self.jobs.is_empty()) else {
            return Ok(());
        };
        match (self.jobs.get(job), self.task_index) {
            (None, _) if job.as_str() == EVALUATOR => Ok(()),
            (None, _) => Err(format!(
                "task.type is '{job}', but the cluster has {}",
                self.jobs
                    .keys()
                    .map(|job| format!("'{job}'"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
            (Some(tasks), Some(index)) if !tasks.contains_key(&index) => Err(format!(
                "task.index is {index}, but cluster.{job} has no such task"
            )),
            _ => Ok(()),
        }
    }

    /// The names of the jobs, in alphabetical order.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &Text> {
        self.jobs.keys()
    }

    /// The numbers and addresses of the tasks of a job, in the order of their numbers.
    ///
    /// Fails with NOT_FOUND if there is no such job.
    pub fn tasks(&self, job: &str) -> Result<impl ExactSizeIterator<Item = (usize, &Text)>> {
        let tasks = self
            .jobs
            .get(job)
            .ok_or_else(|| Error::NotFound(format!("job: the cluster has no job '{job}'")))?;
        Ok(tasks.iter().map(|(&index, address)| (index, address)))
    }

    /// The job to which this process belongs, if the configuration says it.
    pub fn task_type(&self) -> Option<&Text> {
        self.task_type.as_ref()
    }

    /// The number of this process's task in its job, if the configuration says it.
    pub fn task_index(&self) -> Option<usize> {
        self.task_index
    }
}

fn object<'a>(value: &'a Value, place: &str) -> Result<&'a Map<String, Value>, String> {
    value
        .as_object()
        .ok_or_else(|| format!("{place} is {}; an object is expected", shown(value)))
}

/// A value for a message.
fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}

/// The tasks of a job, from an array of addresses, or from an object of numbers and addresses.
fn job_tasks(job: &str, tasks: &Value) -> Result<BTreeMap<usize, Text>, String> {
    let address = |place: String, value: &Value| {
        let text = value.as_str().filter(|text| !text.is_empty());
        text.map(Text::from)
            .ok_or_else(|| format!("{place} is {}; an address is expected", shown(value)))
    };
    match tasks {
        Value::Array(tasks) => tasks
            .iter()
            .enumerate()
            .map(|(index, task)| Ok((index, address(format!("cluster.{job}[{index}]"), task)?)))
            .collect(),
        Value::Object(tasks) => tasks
            .iter()
            .map(|(index, task)| {
                let number = task_number(index.parse().ok()).ok_or_else(|| {
                    format!("cluster.{job} has the key '{index}'; task numbers are expected")
                })?;
                Ok((number, address(format!("cluster.{job}.{index}"), task)?))
            })
            .collect(),
        other => Err(format!(
            "cluster.{job} is {}; an array of addresses is expected",
            shown(other)
        )),
    }
}

/// The number of a task. It must fit in the signed 64 bits of C.
fn task_number(number: Option<u64>) -> Option<usize> {
    i64::try_from(number?).ok()?.try_into().ok()
}

fn task_of(task: &Map<String, Value>) -> Result<(Option<Text>, Option<usize>), String> {
    let task_type = match task.get("type") {
        None | Some(Value::Null) => None,
        Some(Value::String(job)) => Some(Text::from(job.as_str())),
        Some(other) => {
            return Err(format!(
                "task.type is {}; the name of a job is expected",
                shown(other)
            ));
        }
    };
    let index = match task.get("index") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(task_number(text.parse().ok())),
        Some(number) => Some(task_number(number.as_u64())),
    };
    match index {
        Some(None) => Err("task.index is not the number of a task: 0 or more is expected".into()),
        found => Ok((task_type, found.flatten())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        ClusterResolver::parse(text, "text")
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_cluster_is_read() {
        let text = r#"{"cluster": {"worker": ["a:1", "b:1"], "ps": {"3": "c:1"}},
                       "task": {"type": "worker", "index": "1"}, "environment": "cloud"}"#;
        let resolver = ClusterResolver::parse(text, "text").unwrap();
        assert_eq!(resolver.jobs().collect::<Vec<_>>(), ["ps", "worker"]);
        let tasks = |job: &str| -> Vec<(usize, String)> {
            let tasks = resolver.tasks(job).unwrap();
            tasks
                .map(|(index, address)| (index, address.to_string()))
                .collect()
        };
        assert_eq!(
            tasks("worker"),
            [(0, "a:1".to_owned()), (1, "b:1".to_owned())]
        );
        assert_eq!(tasks("ps"), [(3, "c:1".to_owned())]);
        assert!(resolver.tasks("chief").is_err());
        assert_eq!(resolver.task_type().map(Text::as_str), Some("worker"));
        assert_eq!(resolver.task_index(), Some(1));
        assert_eq!(
            ClusterResolver::parse("{}", "text").unwrap(),
            ClusterResolver::default()
        );
        let beside =
            r#"{"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}}"#;
        assert_eq!(
            ClusterResolver::parse(beside, "text")
                .unwrap()
                .task_type
                .unwrap(),
            "evaluator"
        );
    }

    #[test]
    fn ranks_are_those_of_chiefs_and_workers() {
        let cluster = r#""cluster": {"worker": ["a:1", "b:1"], "chief": ["c:1"], "ps": ["d:1"]}"#;
        let place = |task: &str| {
            let text = format!("{{{cluster}, \"task\": {{{task}}}}}");
            ClusterResolver::parse(&text, "text").unwrap().place()
        };
        assert_eq!(
            place(r#""type": "chief", "index": 0"#),
            Some(LaunchedRank { rank: 0, size: 3 })
        );
        assert_eq!(
            place(r#""type": "worker", "index": 1"#),
            Some(LaunchedRank { rank: 2, size: 3 })
        );
        for none in [
            r#""type": "ps", "index": 0"#,
            r#""type": "evaluator", "index": 0"#,
            "",
        ] {
            assert_eq!(place(none), None);
        }
    }

    #[test]
    fn a_launcher_must_agree() {
        let text =
            r#"{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}"#;
        let resolver = ClusterResolver::parse(text, "text").unwrap();
        let second = LaunchedRank { rank: 1, size: 2 };
        for launched in [None, Some(second)] {
            assert_eq!(
                resolver.clone().with_launcher(launched).unwrap().place(),
                Some(second)
            );
        }
        let launched = Some(LaunchedRank { rank: 0, size: 2 });
        let said = resolver.with_launcher(launched).unwrap_err().to_string();
        assert!(
            said.starts_with("TF_CONFIG: says rank 1 of 2, and"),
            "{said}"
        );
        let empty = ClusterResolver::default().with_launcher(launched).unwrap();
        assert_eq!(empty.place(), launched);
    }

    #[test]
    fn malformed_configurations_are_refused_with_their_position() {
        for (text, place) in [
            ("{\"cluster\":\n  {\"worker\": [}}", "line 2 column 15"),
            ("[]", "the text is []"),
            (r#"{"cluster": 3}"#, "cluster is 3;"),
            (r#"{"cluster": {"worker": "a:1"}}"#, "cluster.worker is "),
            (
                r#"{"cluster": {"worker": ["a:1", 2]}}"#,
                "cluster.worker[1] is 2;",
            ),
            (r#"{"cluster": {"worker": {"x": "a:1"}}}"#, "key 'x'"),
            (r#"{"task": {"type": 1}}"#, "task.type is 1;"),
            (
                r#"{"cluster": {"worker": {"18446744073709551615": "a:1"}}}"#,
                "key '18446744073709551615'",
            ),
            (r#"{"task": {"type": "worker", "index": -1}}"#, "task.index"),
            (
                r#"{"task": {"type": "worker", "index": 9223372036854775808}}"#,
                "task.index",
            ),
            (
                r#"{"cluster": {"ps": ["a:1"]}, "task": {"type": "worker"}}"#,
                "has 'ps'",
            ),
            (
                r#"{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 1}}"#,
                "task.index is 1",
            ),
        ] {
            assert!(refused(text).contains(place), "{text}: {}", refused(text));
        }
    }
}
