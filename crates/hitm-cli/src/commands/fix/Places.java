import com.sun.source.tree.AnnotationTree;
import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.LineMap;
import com.sun.source.tree.ModifiersTree;
import com.sun.source.tree.Tree;
import com.sun.source.tree.VariableTree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.SourcePositions;
import com.sun.source.util.Trees;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import javax.lang.model.element.Modifier;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

/**
 * Prints the places at which an annotation goes in a Java file: before the fields that are named, or before the class.
 *
 * <p>Arguments: the file, the class by its name in a machine (a.b.Outer$Inner), names of fields, or none for the class.
 * Output: "at" and a number of UTF-16 units for each place; or one line "refused", a line, what was found, and what was
 * expected; or "none" where the file does not declare the class.
 */
public class Places {
    private final CompilationUnitTree unit;
    private final SourcePositions positions;
    private final List<Long> places = new ArrayList<>();

    private Places(CompilationUnitTree unit, SourcePositions positions) {
        this.unit = unit;
        this.positions = positions;
    }

    public static void main(String[] arguments) throws Exception {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        DiagnosticCollector<JavaFileObject> messages = new DiagnosticCollector<>();
        StandardJavaFileManager files =
                compiler.getStandardFileManager(messages, null, StandardCharsets.UTF_8);
        JavacTask task = (JavacTask) compiler.getTask(null, files, messages, List.of("-proc:none"), null,
                files.getJavaFileObjects(Path.of(arguments[0])));
        try {
            for (CompilationUnitTree unit : task.parse()) {
                for (Diagnostic<?> message : messages.getDiagnostics()) {
                    if (message.getKind() == Diagnostic.Kind.ERROR) {
                        String text = message.getMessage(null).lines().findFirst().orElse("an error");
                        throw new Refused(message.getLineNumber(), text, "source that javac parses");
                    }
                }
                Places found = new Places(unit, Trees.instance(task).getSourcePositions());
                found.find(arguments[1], Arrays.asList(arguments).subList(2, arguments.length));
            }
        } catch (Refused refused) {
            System.out.println("refused\t" + refused.line + "\t" + refused.getMessage() + "\t" + refused.expected);
        }
    }

    private void find(String name, List<String> fields) throws Refused {
        ClassTree found = byName(name);
        if (found == null) {
            System.out.println("none");
            return;
        }
        if (fields.isEmpty()) {
            add(found, found.getModifiers(), "class " + found.getSimpleName());
        }
        for (String field : fields) {
            addField(found, field, fields);
        }
        places.stream().distinct().forEach(place -> System.out.println("at\t" + place));
    }

    /** The class of a machine's name; null where it is not in the file. */
    private ClassTree byName(String name) {
        String start = unit.getPackageName() == null ? "" : unit.getPackageName() + ".";
        if (!name.startsWith(start)) {
            return null;
        }
        ClassTree found = null;
        List<? extends Tree> members = unit.getTypeDecls();
        for (String part : name.substring(start.length()).split("\\$")) {
            found = null;
            for (Tree member : members) {
                if (member instanceof ClassTree && ((ClassTree) member).getSimpleName().contentEquals(part)) {
                    found = (ClassTree) member;
                }
            }
            if (found == null) {
                return null;
            }
            members = found.getMembers();
        }
        return found;
    }

    private void addField(ClassTree of, String name, List<String> wanted) throws Refused {
        VariableTree found = null;
        for (Tree member : of.getMembers()) {
            if (member instanceof VariableTree && ((VariableTree) member).getName().contentEquals(name)) {
                found = (VariableTree) member;
            }
        }
        if (found == null) {
            throw refused(of, "no field " + name + " in class " + of.getSimpleName(), "the source of the program");
        }
        if (found.getModifiers().getFlags().contains(Modifier.STATIC)) {
            throw refused(found, "the static field " + name,
                    "a field of objects: the machine pads no static fields");
        }
        long place = positions.getStartPosition(unit, found);
        for (Tree member : of.getMembers()) {
            // Fields of one declaration share its modifiers.
            boolean isShared = member instanceof VariableTree
                    && positions.getStartPosition(unit, member) == place
                    && !wanted.contains(((VariableTree) member).getName().toString());
            if (isShared) {
                throw refused(found, name + " declared with other fields", "a declaration of its own");
            }
        }
        add(found, found.getModifiers(), name);
    }

    private void add(Tree tree, ModifiersTree modifiers, String name) throws Refused {
        for (AnnotationTree annotation : modifiers.getAnnotations()) {
            String type = annotation.getAnnotationType().toString();
            if (type.equals("Contended") || type.endsWith(".Contended")) {
                throw refused(tree, "@Contended on " + name + " already",
                        "java with -XX:-RestrictContended, which heeds it");
            }
        }
        places.add(positions.getStartPosition(unit, tree));
    }

    private Refused refused(Tree at, String found, String expected) {
        LineMap lines = unit.getLineMap();
        return new Refused(lines.getLineNumber(positions.getStartPosition(unit, at)), found, expected);
    }

    private static final class Refused extends Exception {
        final long line;
        final String expected;

        Refused(long line, String found, String expected) {
            super(found);
            this.line = line;
            this.expected = expected;
        }
    }
}
