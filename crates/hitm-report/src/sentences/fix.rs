//! Remedies that are built and measured, in words.

use super::sentences;

sentences! {
    /// A structure with another layout.
    of_layout(name, plan) = "{name}: {plan}";
    /// A structure with the layout of a file.
    of_file(name, file) = "{name}: {file}";
    /// Fields of a structure of Rust in crossbeam's wrapper.
    wrapped(name, fields) = "{name}: {fields} in CachePadded";
    /// Fields of a Java class with the annotation.
    annotated(class, fields) = "{class}: @Contended on {fields}";
    /// Objects of a Java class with the annotation.
    annotated_class(class) = "{class}: @Contended on the class";
    /// A Java class that no source of the program has.
    for_jdk(class) = "{class} is the JDK's and takes no annotation: LongAdder for a count, an object for each thread, or \
        a class of your own with a field that has @Contended";
    /// Options of Java.
    java_options(exports, heeds) = "javac needs {exports}, and java {heeds}: trials have them by JDK_JAVAC_OPTIONS and \
        JAVA_TOOL_OPTIONS, which a build within Maven or Gradle does not heed";
    /// An array of values, padded.
    array(name) = "{name}: each element on a line of its own";
    /// Variables that begin lines.
    variables(names) = "{names}: each on a line of its own";

    /// The user's version is built.
    base() = "building and recording the program as it is";
    /// A remedy is tried.
    trial(what) = "trying {what}";
    /// A remedy has its fate.
    ended(what, fate) = "{what}: {fate}";

    /// A remedy that saves enough.
    kept(gain) = "kept, {gain} less";
    /// A remedy that does not.
    undone(gain, sure) = "undone: {gain} less in the median, {sure} for certain";
    /// A remedy that costs more.
    undone_worse(growth) = "undone: {growth} more";
    /// A layout that remedies are compared with.
    compared(gain, sure) = "measured: {gain} less in the median, {sure} for certain";
    /// Such a layout that costs more.
    compared_worse(growth) = "measured: {growth} more";
    /// A remedy that was not measured.
    refused(why) = "refused: {why}";

    /// Result of all that was kept.
    result(gain, after, before, runs, machine) = "Threads take {gain} less: {after} cycles instead of {before}, {runs} \
        of each version on {machine}.";
    /// The result on another machine.
    elsewhere(machine, gain, after, before) = "On {machine}, by replays, {gain} less: {after} cycles instead of {before}.";
    /// Nothing was kept.
    no_patch(runs, machine, share) = "No patch: no remedy saves {share} beyond the spread of {runs} on {machine}.";
    /// Nothing could be measured.
    no_remedy() = "No patch: no finding has a remedy that the source takes.";
    /// A finding without a remedy.
    left(name, kind, share) = "{name} ({kind}), at most {share} of the threads' time";
    /// Words of the output that vary.
    varying(words) = "Not compared, as runs of the program as it is differ there: {words} of its output.";
    /// Exit code of the program.
    ends_with(code) = "The program as it is ends with exit code {code}.";
    /// More remedies were there.
    is_cut() = "More remedies are left: --remedies tries more.";
    /// The change is in the user's tree.
    applied(files) = "wrote {files}";
    /// Title of a commit.
    title(names) = "Keep apart what different threads use: {names}";
    /// The only remedy in a message for a commit.
    only_line(what) = "{what}.";
    /// A remedy of several in a message for a commit.
    kept_line(what, gain, after, before) = "{what}: {gain} less, {after} cycles instead of {before}.";
}
