//! A table of numbers that a training writes line by line, as comma-separated values.

use std::io::Read;

/// The last words of the columns that are drawn by default.
const USUAL: [&str; 2] = ["loss", "accuracy"];

/// One curve: the values of a column over those of the first one.
#[derive(Debug, PartialEq)]
pub struct Curve {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Curves with the same unit.
#[derive(Debug, PartialEq)]
pub struct Chart {
    /// The last word of their names.
    pub subject: String,
    pub curves: Vec<Curve>,
}

pub struct History {
    columns: Vec<String>,
    /// The rows in the order of the first column. Empty cells are NaN.
    rows: Vec<Vec<f64>>,
}

impl History {
    pub fn read(file: impl Read) -> Result<History, String> {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .from_reader(file);
        let columns: Vec<String> = reader
            .headers()
            .map_err(said)?
            .iter()
            .map(str::to_owned)
            .collect();
        if columns.len() < 2 {
            return Err(
                "its first line names no columns; it is to be like 'epoch,loss,accuracy'"
                    .to_owned(),
            );
        }
        let mut rows: Vec<Vec<f64>> = Vec::new();
        for record in reader.records() {
            let record = record.map_err(said)?;
            let line = record.position().map_or(0, csv::Position::line);
            let row = columns
                .iter()
                .zip(&record)
                .map(|(column, text)| {
                    number(text).ok_or_else(|| {
                        format!("line {line}, column '{column}': '{text}' is not a number")
                    })
                })
                .collect::<Result<Vec<f64>, String>>()?;
            if !row[0].is_finite() {
                return Err(format!(
                    "line {line}: the first column, '{}', says where the line belongs and needs a \
                     number",
                    columns[0]
                ));
            }
            // If two lines have the same first number, the later line counts.
            rows.retain(|earlier| earlier[0] != row[0]);
            rows.push(row);
        }
        if rows.is_empty() {
            return Err("it has no lines below the names of its columns".to_owned());
        }
        rows.sort_by(|one, other| one[0].total_cmp(&other[0]));
        Ok(History { columns, rows })
    }

    /// The name of the first column.
    pub fn axis(&self) -> &str {
        &self.columns[0]
    }

    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Charts of the columns in this list, or of the usual ones. Columns that end in the same word
    /// are in one chart.
    pub fn charts(&self, list: Option<&str>) -> Result<Vec<Chart>, String> {
        let known = &self.columns[1..];
        let there_are = || format!("there are {}", known.join(", "));
        let wanted: Vec<&str> = match list {
            Some(list) => list.split(',').map(str::trim).collect(),
            None => USUAL
                .into_iter()
                .flat_map(|word| known.iter().filter(move |name| last_word(name) == word))
                .map(String::as_str)
                .collect(),
        };
        if wanted.is_empty() {
            return Err(format!(
                "no column ends in 'loss' or 'accuracy'; choose with --columns: {}",
                there_are()
            ));
        }
        let mut charts: Vec<Chart> = Vec::new();
        for name in wanted {
            let Some(column) = known.iter().position(|column| column == name) else {
                return Err(format!("it has no column '{name}'; {}", there_are()));
            };
            let points = self.rows.iter().map(|row| (row[0], row[column + 1]));
            let points = points.filter(|(_, value)| value.is_finite()).collect();
            let curve = Curve {
                name: name.to_owned(),
                points,
            };
            let subject = last_word(name).to_owned();
            match charts.iter_mut().find(|chart| chart.subject == subject) {
                Some(chart) => chart.curves.push(curve),
                None => charts.push(Chart {
                    subject,
                    curves: vec![curve],
                }),
            }
        }
        Ok(charts)
    }
}

fn said(error: csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            pos: Some(position),
            expected_len,
            len,
        } => format!(
            "line {} has {len} values, but the first line names {expected_len} columns; where \
             there is no number, leave nothing between the commas",
            position.line()
        ),
        csv::ErrorKind::Utf8 {
            pos: Some(position),
            ..
        } => {
            format!("line {} is not a text in UTF-8", position.line())
        }
        csv::ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    }
}

/// Reads a number. An empty cell is not an error: a column may have begun later, or there may have
/// been no loss.
fn number(text: &str) -> Option<f64> {
    if text.is_empty() {
        Some(f64::NAN)
    } else {
        text.parse().ok()
    }
}

/// The last word of a name, such as `accuracy` of `test_accuracy`.
fn last_word(name: &str) -> &str {
    name.rsplit(['_', '/', ' ', '-', '.'])
        .next()
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(text: &str) -> History {
        History::read(text.as_bytes()).unwrap()
    }

    fn refused(text: &str) -> String {
        History::read(text.as_bytes()).err().unwrap()
    }

    #[test]
    fn columns_of_one_kind_share_a_chart() {
        let read = history(
            "epoch, loss, accuracy, test_loss, seconds\n1, 0.5, 0.8, 0.6, 3\n2, 0.4, 0.9, , 3\n",
        );
        assert_eq!((read.axis(), read.rows()), ("epoch", 2));
        let charts = read.charts(None).unwrap();
        let names = |chart: &Chart| {
            chart
                .curves
                .iter()
                .map(|curve| curve.name.clone())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(names(&charts[0]), "loss test_loss");
        assert_eq!(names(&charts[1]), "accuracy");
        assert_eq!(charts[0].curves[0].points, [(1.0, 0.5), (2.0, 0.4)]);
        // The cell in the second line is empty.
        assert_eq!(charts[0].curves[1].points, [(1.0, 0.6)]);
        let chosen = read.charts(Some("seconds, loss")).unwrap();
        assert_eq!((chosen[0].subject.as_str(), chosen.len()), ("seconds", 2));
    }

    #[test]
    fn later_line_of_an_epoch_counts() {
        let read = history("epoch,loss\n1,4\n3,2\n2,3\n3,1\n");
        let charts = read.charts(None).unwrap();
        assert_eq!(
            charts[0].curves[0].points,
            [(1.0, 4.0), (2.0, 3.0), (3.0, 1.0)]
        );
    }

    #[test]
    fn mistakes_are_named() {
        assert!(refused("").contains("names no columns"));
        assert!(refused("epoch,loss\n").contains("no lines"));
        assert!(refused("epoch,loss\n1,0.5\n2,much\n").contains("line 3, column 'loss': 'much'"));
        assert!(refused("epoch,loss\n,0.5\n").contains("line 2: the first column, 'epoch'"));
        let uneven = refused("epoch,loss\n1,0.5\n2,0.4,7\n");
        assert!(
            uneven.starts_with("line 3 has 3 values, but the first line names 2"),
            "{uneven}"
        );
        assert!(!uneven.contains("CSV"), "{uneven}");
        let read = history("epoch,error,rate\n1,2,3\n");
        let wanted = read.charts(None).unwrap_err();
        assert!(
            wanted.contains("--columns: there are error, rate"),
            "{wanted}"
        );
        let wanted = read.charts(Some("los")).unwrap_err();
        assert!(
            wanted.contains("no column 'los'; there are error, rate"),
            "{wanted}"
        );
    }
}
