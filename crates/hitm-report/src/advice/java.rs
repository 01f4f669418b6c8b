//! Remedies for objects of a Java machine.

use hitm_base::LINE_SIZE;

use super::{Advisor, list};
use crate::model::ObjectUse;
use crate::names::brief;
use crate::sentences::java as say;

impl Advisor<'_> {
    /// A remedy by layout for the objects of some bytes; none if they are not all a Java machine's.
    pub(super) fn separate_in_java(&self, objects: &[&ObjectUse], bytes: u64) -> Option<String> {
        let [first, others @ ..] = objects else {
            return None;
        };
        if !objects.iter().all(|object| object.is_java()) {
            return None;
        }
        // Elements that several threads write meet whatever lies beside their array.
        let writers = |one: &&ObjectUse| self.names.groups_of_writers(one, self.sharing.written);
        let mut arrays = objects.iter().copied().filter(|object| object.is_array);
        if let Some(array) = arrays.find(|one| others.is_empty() || writers(one).len() > 1) {
            let size = array.element_size_bytes.unwrap_or(1).clamp(1, LINE_SIZE);
            return Some(say::elements(brief(&array.name), LINE_SIZE / size));
        }
        Some(match others {
            [] => self.fields(first, bytes),
            _ => apart(objects),
        })
    }

    fn fields(&self, object: &ObjectUse, bytes: u64) -> String {
        let read_mostly = self.sharing.read_mostly;
        let written = self.names.written_in(bytes & !read_mostly);
        // An object's header goes where the object goes.
        let is_header = |name: &str| name.contains(".<");
        let mut read = self.names.members_in(bytes & read_mostly);
        read.retain(|name| !is_header(name));
        let mut names = match written.is_empty() {
            true => self.names.members_in(bytes),
            false => written,
        };
        names.dedup();
        let names: Vec<String> = names.into_iter().map(brief).collect();
        let apart = of_fields(object, &names);
        match read.is_empty() || object.is_of_jdk() {
            true => apart,
            false => say::away_from(apart, list(&read)),
        }
    }
}

/// A remedy for fields of one object, or static ones of one class.
fn of_fields(object: &ObjectUse, names: &[String]) -> String {
    let (is_one, names, class) = (names.len() == 1, names.join(", "), brief(&object.name));
    match (object.is_of_jdk(), object.has_statics(), is_one) {
        (true, true, _) => say::statics_of_jdk(names, class),
        (true, false, _) => say::of_jdk(names, class),
        (false, true, true) => say::static_field(names, class),
        (false, true, false) => say::statics(names, class),
        (false, false, true) => say::field(names, class),
        (false, false, false) => say::fields(names, class),
    }
}

/// A remedy for several objects in a line.
fn apart(objects: &[&ObjectUse]) -> String {
    let (padded, others): (Vec<&ObjectUse>, Vec<&ObjectUse>) =
        objects.iter().partition(|object| object.has_annotations());
    let first = objects.first().map_or("", |object| object.name.as_str());
    let are_of_one = objects.iter().all(|object| object.name == first);
    match (padded.is_empty(), others.is_empty(), are_of_one) {
        (false, _, true) => say::objects_of(brief(first), objects.len()),
        (true, _, true) => say::unpadded_objects_of(brief(first), objects.len()),
        (true, _, false) => say::unpadded_objects(names_of(objects)),
        (false, true, false) => say::objects(names_of(objects)),
        (false, false, false) => say::objects_beside(names_of(&padded), names_of(&others)),
    }
}

fn names_of(objects: &[&ObjectUse]) -> String {
    let names: Vec<&str> = objects.iter().map(|object| object.name.as_str()).collect();
    list(&names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hitm_recording::generated::told::{JAVA_HEAP, JAVA_STATICS};

    fn object(name: &str, origin: &str) -> ObjectUse {
        ObjectUse {
            name: name.to_owned(),
            address: 0x1000,
            size_bytes: 24,
            origin: origin.to_owned(),
            contended_count: 1,
            members: Vec::new(),
            is_array: name.ends_with("[]"),
            straddles: false,
            element_size_bytes: None,
        }
    }

    #[test]
    fn classes_of_the_jdk_take_no_annotation() {
        let of_jdk = |name, origin| object(name, origin).is_of_jdk();
        assert!(of_jdk("java.util.concurrent.atomic.AtomicLong", JAVA_HEAP));
        assert!(of_jdk("jdk.internal.misc.Unsafe", JAVA_STATICS));
        assert!(!of_jdk("javassist.Pool", JAVA_HEAP));
        assert!(
            !of_jdk("java.util.Fs", "heap"),
            "a type of another language"
        );
    }

    #[test]
    fn fields_that_no_annotation_pads_have_another_home() {
        let of = |class: &str, origin| of_fields(&object(class, origin), &[format!("{class}.n")]);
        let heeded = "(the machine heeds it with -XX:-RestrictContended)";
        assert_eq!(
            of("app.Fs", JAVA_STATICS),
            format!(
                "app.Fs.n (static field of app.Fs): the machine pads no static fields; keep it in an object of a \
                 class of its own, in a field with @Contended {heeded}"
            )
        );
        assert_eq!(
            of("java.util.A", JAVA_HEAP),
            format!(
                "java.util.A.n, of the JDK's java.util.A: LongAdder for a count, an object for each thread, or a \
                 class of your own with a field that has @Contended {heeded}"
            )
        );
        assert_eq!(
            of("java.util.A", JAVA_STATICS),
            "java.util.A.n (static fields of the JDK's java.util.A): no program moves them; call less often what \
             writes them"
        );
        assert!(of("app.Fs", JAVA_HEAP).contains("@Contended or a class of its own"));
    }

    #[test]
    fn objects_in_a_line_are_padded_where_their_class_is_the_programs() {
        let of = |names: &[(&str, &str)]| {
            let objects: Vec<ObjectUse> = names.iter().map(|one| object(one.0, one.1)).collect();
            apart(&objects.iter().collect::<Vec<&ObjectUse>>())
        };
        let (atomic, own) = ("java.util.concurrent.atomic.AtomicLong", "app.Cell");
        assert_eq!(
            of(&[(own, JAVA_HEAP), (own, JAVA_HEAP)]),
            "@Contended on app.Cell: 2 of its objects lie in one line by accident"
        );
        assert_eq!(
            of(&[(own, JAVA_HEAP), (atomic, JAVA_HEAP)]),
            format!(
                "@Contended on the class of app.Cell: it lies in one line with {atomic} by accident"
            )
        );
        let rest = "lie in one line by accident, and no annotation moves them: keep what is written in objects of a \
                    class of your own with @Contended (LongAdder for counts)";
        assert_eq!(
            of(&[(atomic, JAVA_HEAP), (atomic, JAVA_HEAP)]),
            format!("2 of {atomic} {rest}")
        );
        assert_eq!(
            of(&[(own, JAVA_STATICS), ("long[]", JAVA_HEAP)]),
            format!("app.Cell and long[] {rest}")
        );
    }
}
