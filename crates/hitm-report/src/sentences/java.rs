//! Advice on objects of a Java machine, in words: they have no alignment, and no place that the program chooses.

use super::sentences;

sentences! {
    /// A field that is written.
    field(field, class) = "{field} (field of {class}): @Contended or a class of its own (the machine heeds @Contended \
                           with -XX:-RestrictContended)";
    /// Fields that different threads write.
    fields(fields, class) = "{fields} (fields of {class}): @Contended or a class each (the machine heeds @Contended with \
                             -XX:-RestrictContended)";
    /// A static field.
    static_field(field, class) = "{field} (static field of {class}): @Contended or a class of its own (the machine \
                                  heeds @Contended with -XX:-RestrictContended)";
    /// Static fields.
    statics(fields, class) = "{fields} (static fields of {class}): @Contended or a class each (the machine heeds \
                              @Contended with -XX:-RestrictContended)";
    /// Fields that are written beside others that are only read.
    away_from(apart, read) = "{apart}, away from {read}, which is only read";
    /// Elements of an array.
    elements(array, step) = "Use every {step}th element of {array} and none of the first {step}, or an object with a \
                             @Contended field for each thread (LongAdder for a count)";
    /// Objects of one class in a line.
    objects_of(class, count) = "@Contended on {class}: {count} of its objects lie in one line by accident";
    /// Objects of several classes in a line.
    objects(names) = "@Contended on the classes of {names}, which lie in one line by accident";
}
