//! Metrics: sums with weights that replicas add to and that merge without loss.

/// A sum and the weight it was taken over; the quotient is the mean. Metrics of several replicas
/// or steps are merged by adding both.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metric {
    /// The weighted sum.
    pub sum: f64,
    /// The sum of the weights, usually a number of examples.
    pub weight: f64,
}

impl Metric {
    /// The sum over the weight; NaN if there is no weight.
    pub fn mean(&self) -> f64 {
        self.sum / self.weight
    }
}

/// Metrics by name. Entries keep their place when the table is cleared, so that a steady step
/// allocates nothing.
#[derive(Debug, Default)]
pub(super) struct MetricTable {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    metric: Option<Metric>,
}

impl MetricTable {
    pub fn clear(&mut self) {
        for entry in &mut self.entries {
            entry.metric = None;
        }
    }

    pub fn add(&mut self, name: &str, metric: Metric) {
        let entry = match self.entries.iter_mut().position(|entry| entry.name == name) {
            Some(position) => &mut self.entries[position],
            None => {
                self.entries.push(Entry { name: name.to_owned(), metric: None });
                self.entries.last_mut().expect("an entry was just pushed")
            }
        };
        let total = entry.metric.get_or_insert_default();
        total.sum += metric.sum;
        total.weight += metric.weight;
    }

    pub fn get(&self, name: &str) -> Option<Metric> {
        self.entries.iter().find(|entry| entry.name == name).and_then(|entry| entry.metric)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Metric)> {
        self.entries.iter().filter_map(|entry| Some((entry.name.as_str(), entry.metric?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_weights_add_up_and_clearing_forgets_them() {
        let mut table = MetricTable::default();
        table.add("loss", Metric { sum: 3.0, weight: 2.0 });
        table.add("loss", Metric { sum: 1.0, weight: 2.0 });
        assert_eq!(table.get("loss").map(|metric| metric.mean()), Some(1.0));
        assert_eq!(table.get("accuracy"), None);
        table.clear();
        assert_eq!(table.get("loss"), None);
        assert_eq!(table.iter().count(), 0);
    }
}
