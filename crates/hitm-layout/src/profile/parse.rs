//! CSV -> [`Profile`] and back, with line and column of every mistake.
//!
//! The format is small enough that a CSV library would cost more than it saves. No field needs a
//! quote, because no path, function or list of CPUs holds a comma.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hitm_base::Cycles;
use thiserror::Error;

use super::{Counts, CpuSet, Profile, RowKey};

/// Longest table that is read.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// Largest count, and longest period: sums and rates stay far from the end of the numbers.
const NUMBER_MAX: u64 = super::COUNT_MAX;

const HEADERS: [&str; 4] = ["schema", "name", "source", "period_cycles"];
const NEEDED: [&str; 5] = ["member", "function", "loads", "stores", "cpus"];
const OPTIONAL: [&str; 3] = ["rmws", "comm", "instance"];

/// A mistake in a profile, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}:{line}:{column}: {key}: found {found}, expected {expected}")]
pub struct ProfileError {
    /// Name of the file.
    pub origin: String,
    /// Line, from 1.
    pub line: usize,
    /// Character in the line, from 1.
    pub column: usize,
    /// The column or header.
    pub key: String,
    /// Content of that place.
    pub found: String,
    /// Content that would be right there.
    pub expected: String,
}

/// The place that is read, for errors.
struct Place<'t> {
    origin: &'t str,
    line: usize,
    text: &'t str,
}

impl<'t> Place<'t> {
    /// An error at `part`, which is a slice of the line.
    fn error(&self, part: &str, key: &str, found: &str, expected: &str) -> ProfileError {
        const CHARS_MAX: usize = 60;
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset).unwrap_or("");
        let clean = |text: &str| -> String {
            let chars = text.chars().map(|c| if c.is_control() { ' ' } else { c });
            chars.take(CHARS_MAX).collect()
        };
        ProfileError {
            origin: self.origin.to_owned(),
            line: self.line,
            column: before.chars().count() + 1,
            key: clean(key),
            found: clean(found),
            expected: expected.to_owned(),
        }
    }

    fn number(&self, field: &str, key: &str, least: u64) -> Result<u64, ProfileError> {
        let digits = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| field.parse().ok()).flatten();
        number
            .filter(|number| (least..=NUMBER_MAX).contains(number))
            .ok_or_else(|| {
                let expected = format!("a whole number from {least} to {NUMBER_MAX}");
                self.error(field, key, &format!("{field:?}"), &expected)
            })
    }

    fn fields(&self) -> Vec<&'t str> {
        self.text.split(',').map(str::trim).collect()
    }
}

impl Profile {
    /// Reads a table; `origin` is its name in errors.
    pub fn parse(text: &str, origin: &str) -> Result<Profile, ProfileError> {
        let mut lines = (1..)
            .zip(text.lines())
            .map(|(line, text)| Place { origin, line, text });
        if text.len() > TEXT_BYTES_MAX {
            let place = Place {
                origin,
                line: 1,
                text,
            };
            let expected = format!("at most {TEXT_BYTES_MAX} bytes");
            return Err(place.error(
                text,
                "the file",
                &format!("{} bytes", text.len()),
                &expected,
            ));
        }
        let mut headers: BTreeMap<&str, (Place<'_>, &str)> = BTreeMap::new();
        let titles = loop {
            let Some(place) = lines.next() else {
                let end = text.lines().count().max(1);
                let place = Place {
                    origin,
                    line: end,
                    text: "",
                };
                let expected = "a line of column titles, such as member,function,loads,stores,cpus";
                return Err(place.error("", "the file", "its end", expected));
            };
            match place.text.strip_prefix('#') {
                Some(rest) => note_header(place, rest, &mut headers)?,
                None if place.text.trim().is_empty() => {}
                None => break place,
            }
        };
        let mut profile = from_headers(&headers, &titles)?;
        let columns = columns(&titles)?;
        for place in lines {
            if place.text.trim().is_empty() || place.text.starts_with('#') {
                continue;
            }
            let (key, counts) = row(&place, &columns)?;
            profile.add(key, counts);
        }
        if profile.rows.is_empty() {
            let expected = "at least one row below the titles";
            return Err(titles.error(titles.text, "the file", "no row", expected));
        }
        Ok(profile)
    }

    /// The profile as a table that [`Profile::parse`] reads back. CPUs that worked for a time of
    /// their own get the common one: counts are scaled to it, rounded to the nearest.
    pub fn to_csv(&self) -> String {
        let mut out = String::from("# schema: 1\n");
        let lines = [("name", &self.name), ("source", &self.source)];
        for (key, words) in lines {
            writeln!(out, "# {key}: {words}").expect("writing to a String cannot fail");
        }
        writeln!(out, "# period_cycles: {}", self.period).expect("writing to a String cannot fail");
        out += "member,instance,function,comm,loads,stores,rmws,cpus\n";
        for (key, counts) in self.rows() {
            let work = self.work_of(key.cpus.last()).0.max(1);
            let scale = |count: u64| {
                let scaled = u128::from(count) * u128::from(self.period.0) + u128::from(work / 2);
                scaled / u128::from(work)
            };
            let words = |text: &str| text.replace([',', '\n'], ";");
            writeln!(
                out,
                "{},{},{},{},{},{},{},{}",
                words(&key.member),
                key.instance,
                words(&key.function),
                words(&key.comm),
                scale(counts.loads),
                scale(counts.stores),
                scale(counts.rmws),
                key.cpus
            )
            .expect("writing to a String cannot fail");
        }
        out
    }
}

/// A line `# key: words` above the titles; any other comment is skipped.
fn note_header<'t>(
    place: Place<'t>,
    rest: &'t str,
    headers: &mut BTreeMap<&'t str, (Place<'t>, &'t str)>,
) -> Result<(), ProfileError> {
    let Some((key, words)) = rest.split_once(':') else {
        return Ok(());
    };
    let key = key.trim();
    if !HEADERS.contains(&key) {
        return Ok(());
    }
    if headers.contains_key(key) {
        return Err(place.error(rest, key, "a second time", "each header once"));
    }
    headers.insert(key, (place, words.trim()));
    Ok(())
}

fn from_headers(
    headers: &BTreeMap<&str, (Place<'_>, &str)>,
    titles: &Place<'_>,
) -> Result<Profile, ProfileError> {
    let header = |key: &str| {
        headers.get(key).ok_or_else(|| {
            let expected = format!("a line `# {key}: ...` above the titles");
            titles.error(titles.text, key, "no such line", &expected)
        })
    };
    let (place, schema) = header("schema")?;
    if *schema != "1" {
        return Err(place.error(schema, "schema", schema, "1"));
    }
    let (place, period) = header("period_cycles")?;
    let period = place.number(period, "period_cycles", 1)?;
    let mut words = Vec::new();
    for key in ["name", "source"] {
        let (place, text) = header(key)?;
        let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let clean = clean.collect::<String>().trim().to_owned();
        if clean.is_empty() {
            return Err(place.error(text, key, "nothing", "one line of text"));
        }
        words.push(clean);
    }
    Ok(Profile::new(&words[0], &words[1], Cycles(period)))
}

/// Returns the column of each title.
fn columns<'t>(titles: &Place<'t>) -> Result<BTreeMap<&'t str, usize>, ProfileError> {
    let mut columns = BTreeMap::new();
    for (index, title) in titles.fields().into_iter().enumerate() {
        if !NEEDED.contains(&title) && !OPTIONAL.contains(&title) {
            let expected = format!("one of {}, {}", NEEDED.join(", "), OPTIONAL.join(", "));
            return Err(titles.error(title, "title", &format!("{title:?}"), &expected));
        }
        if columns.insert(title, index).is_some() {
            return Err(titles.error(title, title, "a second time", "each title once"));
        }
    }
    match NEEDED.iter().find(|title| !columns.contains_key(*title)) {
        Some(missing) => {
            Err(titles.error(titles.text, missing, "no such title", "it in this line"))
        }
        None => Ok(columns),
    }
}

fn row(
    place: &Place<'_>,
    columns: &BTreeMap<&str, usize>,
) -> Result<(RowKey, Counts), ProfileError> {
    let fields = place.fields();
    if fields.len() != columns.len() {
        let found = format!("{} fields", fields.len());
        let expected = format!("{}, as there are titles", columns.len());
        return Err(place.error(place.text, "row", &found, &expected));
    }
    let field = |title: &str| columns.get(title).map(|index| fields[*index]);
    let count = |title: &str| match field(title) {
        Some(text) => place.number(text, title, 0),
        None => Ok(0),
    };
    let words = |title: &str| -> Result<String, ProfileError> {
        let text = field(title).unwrap_or("");
        if text.chars().any(char::is_control) {
            return Err(place.error(text, title, "a control character", "plain text"));
        }
        Ok(text.to_owned())
    };
    let counts = Counts {
        loads: count("loads")?,
        stores: count("stores")?,
        rmws: count("rmws")?,
    };
    let cpus = field("cpus").unwrap_or("");
    let cpus = CpuSet::parse(cpus).ok_or_else(|| {
        let expected = "CPU numbers and ranges with spaces between, such as `0-3 8`";
        place.error(cpus, "cpus", &format!("{cpus:?}"), expected)
    })?;
    let member = words("member")?;
    if member.is_empty() || member.starts_with('#') {
        return Err(place.error(place.text, "member", "nothing", "the path of a member"));
    }
    let key = RowKey {
        member,
        instance: count("instance")?.min(u64::from(u32::MAX)) as u32,
        function: words("function")?,
        comm: words("comm")?,
        cpus,
    };
    Ok((key, counts))
}
