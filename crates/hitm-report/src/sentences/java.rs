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
    static_field(field, class) = "{field} (static field of {class}): the machine pads no static fields; keep it in an \
                                  object of a class of its own, in a field with @Contended (the machine heeds it \
                                  with -XX:-RestrictContended)";
    /// Static fields.
    statics(fields, class) = "{fields} (static fields of {class}): the machine pads no static fields; keep each in an \
                              object of a class of its own, in a field with @Contended (the machine heeds it with \
                              -XX:-RestrictContended)";
    /// Fields of a class that the program does not have.
    of_jdk(fields, class) = "{fields}, of the JDK's {class}: LongAdder for a count, an object for each thread, or a \
                             class of your own with a field that has @Contended (the machine heeds it with \
                             -XX:-RestrictContended)";
    /// Static fields of a class that the program does not have.
    statics_of_jdk(fields, class) = "{fields} (static fields of the JDK's {class}): no program moves them; call less \
                                     often what writes them";
    /// Fields that are written beside others that are only read.
    away_from(apart, read) = "{apart}, away from {read}, which is only read";
    /// Elements of an array.
    elements(array, step) = "Use every {step}th element of {array} and none of the first {step}, or an object with a \
                             @Contended field for each thread (LongAdder for a count)";
    /// Objects of one class in a line.
    objects_of(class, count) = "@Contended on {class}: {count} of its objects lie in one line by accident";
    /// Objects of one class in a line, of which the machine pads none.
    unpadded_objects_of(class, count) = "{count} of {class} lie in one line by accident, and no annotation moves them: \
                                         keep what is written in objects of a class of your own with @Contended \
                                         (LongAdder for counts)";
    /// Objects of several classes in a line.
    objects(names) = "@Contended on the classes of {names}, which lie in one line by accident";
    /// Objects of several classes in a line, of which the machine pads some.
    objects_beside(names, others) = "@Contended on the class of {names}: it lies in one line with {others} by accident";
    /// Objects of several classes in a line, of which the machine pads none.
    unpadded_objects(names) = "{names} lie in one line by accident, and no annotation moves them: keep what is written \
                               in objects of a class of your own with @Contended (LongAdder for counts)";
}
