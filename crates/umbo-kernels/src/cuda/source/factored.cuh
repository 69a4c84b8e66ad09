// Updates by second moments of which a matrix keeps the means of its rows and of its columns only.
// The formulas and the order of all additions are those of ../../update/factored.rs: a variable is
// cut into blocks of whole rows, and a block into tiles. A row is added up in the parts that the
// tiles cut it into.
//
// A variable is updated by several kernels, one after the other, in the order of this file.
#pragma once
#include "rules.cuh"
#include "tree.cuh"

// Elements of a tile.
#define SHORT_TILE 512
// Rows of a block that a thread reads together.
#define ROWS_TOGETHER 8

// The moments of a variable, and the inputs of its step.
struct Factored {
    // The moments of rows and of columns. Null if each element has one, which is then the first
    // slot of the variable.
    void *rows;
    void *columns;
    // The factors of the moments of the columns in each row, of the variable's type.
    void *row_factors;
    // The sums of the columns of each block.
    double *column_sums;
    // The sums of the parts of each block.
    double *part_sums;
    // Two numbers: the sum of the squares of the weights, and the length of the step.
    double *results;
    // The sizes of a matrix, and how many there are.
    u64 row_count;
    u64 column_count;
    u64 matrices;
    // The factor and the shift for divisions by the number of rows; those by the number of columns
    // are the variable's.
    u64 rows_factor;
    u32 rows_shift;
    u32 unused;
    // The blocks of a matrix, and the elements of each but the last.
    u64 blocks;
    u64 of_block;
    // How many sums of parts a block has.
    u64 parts;
    // The least common multiple of the sizes of a line and of a tile: see `Line`.
    u64 common;
    // The numbers of the update. `floor` is the square of epsilon1.
    double share;
    double epsilon1;
    double floor;
    double epsilon2;
    double clip_threshold;
    double rate;
    double kept;
};
static_assert(sizeof(Factored) == 176, "as in Rust");

// A block of a variable.
struct FactoredBlock {
    // The first of its elements, and their number.
    u64 start;
    u64 elements;

    DEVICE_MEMBER FactoredBlock(GLOBAL const Factored *factored, u64 block) {
        u64 of_matrix = factored->row_count * factored->column_count;
        u64 matrix = block / factored->blocks;
        u64 first = (block - matrix * factored->blocks) * factored->of_block;
        start = matrix * of_matrix + first;
        elements = smaller(of_matrix - first, factored->of_block);
    }
};

// A line: a row of a block, or one of its tiles. 16 threads, the lanes of a seat, add it up.
struct Line {
    // The elements of a line.
    u64 size;
    u64 common;
    // The block, and its first element.
    u64 block;
    u64 origin;
    // The next part of the line, and the end of the line, within the block.
    u64 next;
    u64 end;

    // The line with this number. It has no parts if there is none.
    DEVICE_MEMBER Line(GLOBAL const Factored *factored, u64 of_line, u64 line) {
        size = of_line;
        common = factored->common;
        u64 lines = (factored->of_block + size - 1) / size;
        block = line / lines;
        origin = next = end = 0;
        if (block < factored->matrices * factored->blocks) {
            FactoredBlock within(factored, block);
            origin = within.start;
            next = smaller((line - block * lines) * size, within.elements);
            end = smaller(next + size, within.elements);
        }
    }

    // The most parts of a line: all threads of a block meet so often.
    DEVICE_MEMBER u64 most_parts() const {
        return size == SHORT_TILE ? 1 : (size + SHORT_TILE - 2) / SHORT_TILE + 1;
    }

    DEVICE_MEMBER u64 end_of_part() const {
        return smaller(end, (next / SHORT_TILE + 1) * SHORT_TILE);
    }

    // The place of the sum of the next part among those of its block. Parts begin where a line or
    // a tile begins.
    DEVICE_MEMBER u64 place() const { return next / size + next / SHORT_TILE - next / common; }
};

// Adds up a line in its parts. `terms.add_terms<N>(first, sum)` adds the squares of N elements of
// the variable, every LANES-th from `first` on. `terms.end_part(line, sum)` gets the sum of the
// part that begins at `line.next`, in lane 0.
template <class Terms> DEVICE void add_line(Line line, Seat seat, const Terms &terms) {
    SHARED double lanes[TILES_OF_BLOCK][LANES];
    u64 most = line.most_parts();
    NO_UNROLL
    for (u64 part = 0; part < most; part++) {
        u64 end = line.end_of_part();
        double sum = 0.0;
        if (line.next < line.end) {
            u64 first = line.next + seat.lane;
            NO_UNROLL
            for (; first + (TOGETHER - 1) * LANES < end; first += TOGETHER * LANES) {
                terms.template add_terms<TOGETHER>(line.origin + first, sum);
            }
            NO_UNROLL
            for (; first < end; first += LANES) {
                terms.template add_terms<1>(line.origin + first, sum);
            }
        }
        sum = added_lanes(seat, sum, lanes);
        if (line.next < line.end) {
            if (seat.lane == 0) {
                terms.end_part(line, sum);
            }
            line.next = end;
        }
    }
}

// A moment, moved towards `mean` by this share of the distance. A mean past the type's range
// counts as the largest number.
template <class T> DEVICE T moved(T moment, double mean, double share) {
    double most = (double)largest(Real<T>{0}).value;
    mean = mean > most ? most : mean;
    double wide = (double)moment;
    return (T)add(wide, mul(share, sub(mean, wide)));
}

// The step of an element whose moment is `square`.
template <class T> DEVICE Real<T> step_of(Real<T> gradient, Real<T> square, Real<T> floor) {
    square.value = floor.value > square.value ? floor.value : square.value;
    return gradient / root(square);
}

#define FACTORED_ARGUMENTS(T)                                                                    \
    const Variable *variables, const Contribution *contributions,                                \
        const Treatment<T> *treatments, const Factored *all, const Chunk *chunks, u64 size

// Adds up the squares of the weights, in tiles. If each element has a moment, these are moved.
template <class T> struct AddingWeights {
    const Source<T> &source;
    GLOBAL const Factored *factored;

    template <int N> DEVICE_MEMBER void add_terms(u64 first, double &sum) const {
        GLOBAL const T *weights = reading<T>(source.variable->weights) + first;
        UNROLL
        for (int i = 0; i < N; i++) {
            double wide = (double)weights[i * LANES];
            sum = add(sum, mul(wide, wide));
        }
        if (factored->rows) {
            return;
        }
        Real<T> gradient[N];
        source.template make<N, LANES>(first, gradient);
        GLOBAL T *moments = writing<T>(source.variable->slots[0]) + first;
        UNROLL
        for (int i = 0; i < N; i++) {
            double wide = (double)gradient[i].value;
            moments[i * LANES] = moved(moments[i * LANES], mul(wide, wide), factored->share);
        }
    }

    DEVICE_MEMBER void end_part(const Line &line, double sum) const {
        writing<double>(factored->part_sums)[line.block * factored->parts +
                                             line.next / SHORT_TILE] = sum;
    }
};

// Moves the moments of rows.
template <class T> struct MovingRows {
    const Source<T> &source;
    GLOBAL const Factored *factored;
    mutable double total;

    template <int N> DEVICE_MEMBER void add_terms(u64 first, double &sum) const {
        Real<T> gradient[N];
        source.template make<N, LANES>(first, gradient);
        UNROLL
        for (int i = 0; i < N; i++) {
            double wide = (double)gradient[i].value;
            sum = add(sum, mul(wide, wide));
        }
    }

    DEVICE_MEMBER void end_part(const Line &line, double sum) const {
        total = add(total, sum);
        if (line.end_of_part() == line.end) {
            u64 row = line.origin / line.size + line.next / line.size;
            GLOBAL T *moment = writing<T>(factored->rows) + row;
            double mean = quotient(total, (double)line.size);
            *moment = moved(*moment, mean, factored->share);
        }
    }
};

// Adds up the squares of the steps.
template <class T> struct MeasuringSteps {
    const Source<T> &source;
    GLOBAL const Factored *factored;
    // The moments of the elements from the line's first one on, and their factor.
    GLOBAL const T *moments;
    u64 start;
    Real<T> factor;
    Real<T> floor;

    DEVICE_MEMBER MeasuringSteps(const Source<T> &of, GLOBAL const Factored *numbers,
                                 const Line &line)
        : source(of), factored(numbers) {
        start = line.origin + line.next;
        moments = reading<T>(source.variable->slots[0]) + start;
        factor.value = 1;
        floor.value = (T)factored->floor;
        if (factored->rows && line.next < line.end) {
            u64 row = start / line.size, matrix = row / factored->row_count;
            moments = reading<T>(factored->columns) + matrix * line.size;
            factor.value = reading<T>(factored->row_factors)[row];
        }
    }

    template <int N> DEVICE_MEMBER void add_terms(u64 first, double &sum) const {
        Real<T> gradient[N];
        source.template make<N, LANES>(first, gradient);
        UNROLL
        for (int i = 0; i < N; i++) {
            Real<T> moment = {moments[first - start + i * LANES]};
            double wide = (double)step_of(gradient[i], factor * moment, floor).value;
            sum = add(sum, mul(wide, wide));
        }
    }

    DEVICE_MEMBER void end_part(const Line &line, double sum) const {
        writing<double>(factored->part_sums)[line.block * factored->parts + line.place()] = sum;
    }
};

#define LINE_KERNEL(name, type, T, of_line, terms)                                               \
    KERNEL void umbo_factored_##name##_##type(FACTORED_ARGUMENTS(T)) {                           \
        Part part = part_of(chunks, size);                                                       \
        Source<T> source(variables, contributions, treatments, part.item);                       \
        GLOBAL const Factored *factored = reading<Factored>(all) + part.item;                    \
        Seat seat = own_seat();                                                                  \
        Line line(factored, of_line, part.start + seat.tile);                                    \
        add_line(line, seat, terms);                                                             \
    }
#define LINE_KERNELS(type, T)                                                                    \
    LINE_KERNEL(weights, type, T, SHORT_TILE, (AddingWeights<T>{source, factored}))              \
    LINE_KERNEL(rows, type, T, factored->column_count,                                           \
                (MovingRows<T>{source, factored, 0.0}))                                          \
    LINE_KERNEL(steps, type, T, (factored->rows ? factored->column_count : SHORT_TILE),          \
                (MeasuringSteps<T>(source, factored, line)))
LINE_KERNELS(f32, float)
LINE_KERNELS(f64, double)

// Adds up the columns of each block. A thread has one column of one block.
template <class T> struct AddingColumns {
    const Source<T> &source;
    GLOBAL const Factored *factored;

    template <int N>
    DEVICE_MEMBER void add_rows(u64 first, u64 columns, double &sum) const {
        Real<T> gradient[N];
        source.template make_every<N>(first, columns, gradient);
        UNROLL
        for (int i = 0; i < N; i++) {
            double wide = (double)gradient[i].value;
            sum = add(sum, mul(wide, wide));
        }
    }

    template <int N> DEVICE_MEMBER void run(u64 number) const {
        u64 columns = factored->column_count;
        u64 block = number / columns;
        FactoredBlock within(factored, block);
        u64 next = within.start + (number - block * columns);
        u64 end = within.start + within.elements;
        double sum = 0.0;
        NO_UNROLL
        for (; next + (ROWS_TOGETHER - 1) * columns < end; next += ROWS_TOGETHER * columns) {
            add_rows<ROWS_TOGETHER>(next, columns, sum);
        }
        NO_UNROLL
        for (; next < end; next += columns) {
            add_rows<1>(next, columns, sum);
        }
        writing<double>(factored->column_sums)[number] = sum;
    }
};

#define COLUMNS_KERNEL(type, T)                                                                  \
    KERNEL void umbo_factored_columns_##type(FACTORED_ARGUMENTS(T)) {                            \
        Part part = part_of(chunks, size);                                                       \
        Source<T> source(variables, contributions, treatments, part.item);                       \
        GLOBAL const Factored *factored = reading<Factored>(all) + part.item;                    \
        u64 sums = factored->matrices * factored->blocks * factored->column_count;               \
        for_each_element<1>(part.start, smaller(part.end, sums),                                 \
                            AddingColumns<T>{source, factored});                                 \
    }
COLUMNS_KERNEL(f32, float)
COLUMNS_KERNEL(f64, double)

// Adds numbers to a total in their order. Each thread gives one; all of the block call it. The
// total is right in thread 0.
DEVICE double added_in_order(double total, double number, u64 count, double (&numbers)[THREADS]) {
    numbers[thread_number()] = number;
    barrier();
    if (thread_number() == 0) {
        UNROLL_16
        for (u64 at = 0; at < count; at++) {
            total = add(total, numbers[at]);
        }
    }
    barrier();
    return total;
}

// Moves the moments of the columns of one matrix by the sums of its blocks, and takes the mean of
// those of its rows. Each block has one matrix.
template <class T>
DEVICE void move_columns(GLOBAL const Factored *factored, u64 matrix) {
    SHARED double numbers[THREADS];
    SHARED double shared_mean[1];
    u64 columns = factored->column_count, rows = factored->row_count;
    GLOBAL const double *sums = reading<double>(factored->column_sums) +
                                matrix * factored->blocks * columns;
    GLOBAL T *of_columns = writing<T>(factored->columns) + matrix * columns;
    NO_UNROLL
    for (u64 column = thread_number(); column < columns; column += THREADS) {
        double sum = sums[column];
        UNROLL_4
        for (u64 block = 1; block < factored->blocks; block++) {
            sum = add(sum, sums[block * columns + column]);
        }
        double mean = quotient(sum, (double)rows);
        of_columns[column] = moved(of_columns[column], mean, factored->share);
    }
    GLOBAL const T *of_rows = reading<T>(factored->rows) + matrix * rows;
    double total = 0.0;
    NO_UNROLL
    for (u64 first = 0; first < rows; first += THREADS) {
        u64 row = first + thread_number();
        double part = row < rows ? quotient((double)of_rows[row], (double)rows) : 0.0;
        total = added_in_order(total, part, smaller(THREADS, rows - first), numbers);
    }
    if (thread_number() == 0) {
        shared_mean[0] = factored->epsilon1 > total ? factored->epsilon1 : total;
    }
    barrier();
    double mean = shared_mean[0];
    GLOBAL T *factors = writing<T>(factored->row_factors) + matrix * rows;
    NO_UNROLL
    for (u64 row = thread_number(); row < rows; row += THREADS) {
        factors[row] = (T)quotient((double)of_rows[row], mean);
    }
}

#define MATRICES_KERNEL(type, T)                                                                 \
    KERNEL void umbo_factored_matrices_##type(const Factored *all, const Chunk *chunks,          \
                                              u64 size) {                                        \
        Part part = part_of(chunks, size);                                                       \
        move_columns<T>(reading<Factored>(all) + part.item, part.start);                         \
    }
MATRICES_KERNEL(f32, float)
MATRICES_KERNEL(f64, double)

// Adds up the parts of a variable: those of its weights or, then, those of its steps, which gives
// the length of the step. Each block has one variable.
KERNEL void umbo_factored_totals(const Variable *variables, const Factored *all, u32 of_steps) {
    SHARED double numbers[THREADS];
    GLOBAL const Factored *factored = reading<Factored>(all) + block_number();
    u64 line = of_steps && factored->rows ? factored->column_count : SHORT_TILE;
    u64 blocks = factored->matrices * factored->blocks;
    double total = 0.0;
    NO_UNROLL
    for (u64 first = 0; first < blocks; first += THREADS) {
        u64 block = first + thread_number();
        double sum = 0.0;
        if (block < blocks) {
            u64 last = FactoredBlock(factored, block).elements - 1;
            u64 parts = last / SHORT_TILE + 1;
            if (line != SHORT_TILE) {
                parts += last / line - last / factored->common;
            }
            GLOBAL const double *sums = reading<double>(factored->part_sums) +
                                        block * factored->parts;
            UNROLL_16
            for (u64 part = 0; part < parts; part++) {
                sum = add(sum, sums[part]);
            }
        }
        total = added_in_order(total, sum, smaller(THREADS, blocks - first), numbers);
    }
    if (thread_number() > 0) {
        return;
    }
    GLOBAL double *results = writing<double>(factored->results);
    if (!of_steps) {
        results[0] = total;
        return;
    }
    double elements = (double)reading<Variable>(variables)[block_number()].elements;
    double weights = root(quotient(results[0], elements));
    double steps = quotient(root(quotient(total, elements)), factored->clip_threshold);
    weights = weights > factored->epsilon2 ? weights : factored->epsilon2;
    double length = mul(weights, factored->rate);
    results[1] = steps > 1.0 ? quotient(length, steps) : length;
}

// Updates the weights.
template <class T> struct TakingSteps {
    const Source<T> &source;
    GLOBAL const Factored *factored;
    Real<T> floor;
    Real<T> kept;
    Real<T> rate;
    // 0 as long as all gradients were finite, NaN from the first that was not.
    mutable Real<T> trace;

    DEVICE_MEMBER TakingSteps(const Source<T> &of, GLOBAL const Factored *numbers)
        : source(of), factored(numbers) {
        floor.value = (T)factored->floor;
        kept.value = (T)factored->kept;
        rate.value = (T)reading<double>(factored->results)[1];
        trace.value = 0;
    }

    // The moment of an element.
    DEVICE_MEMBER Real<T> moment(u64 element) const {
        GLOBAL const Variable *variable = source.variable;
        if (!factored->rows) {
            return Real<T>{reading<T>(variable->slots[0])[element]};
        }
        u64 columns = factored->column_count;
        u64 row = divided_by(element, columns, variable->width_factor, variable->width_shift);
        u64 matrix = divided_by(row, factored->row_count, factored->rows_factor,
                                factored->rows_shift);
        Real<T> factor = {reading<T>(factored->row_factors)[row]};
        u64 column = element - row * columns;
        return factor * Real<T>{reading<T>(factored->columns)[matrix * columns + column]};
    }

    template <int N> DEVICE_MEMBER void run(u64 first) const {
        Real<T> gradient[N], square[N], zero = {0};
        GLOBAL T *weights = writing<T>(source.variable->weights) + first;
        UNROLL
        for (int i = 0; i < N; i++) {
            square[i] = moment(first + i * THREADS);
        }
        source.template make<N, THREADS>(first, gradient);
        UNROLL
        for (int i = 0; i < N; i++) {
            trace = trace + gradient[i] * zero;
            Real<T> weight = {weights[i * THREADS]};
            weight = kept * weight - rate * step_of(gradient[i], square[i], floor);
            weights[i * THREADS] = weight.value;
        }
    }

    DEVICE_MEMBER void note() const {
        // A number that is not 0 is NaN. All threads that find one write the same.
        if (source.variable->not_finite && !(trace.value == 0)) {
            *(volatile GLOBAL u32 *)writing<u32>(source.variable->not_finite) = 1;
        }
    }
};

#define TAKE_KERNEL(type, T)                                                                     \
    KERNEL void umbo_factored_take_##type(FACTORED_ARGUMENTS(T)) {                               \
        Part part = part_of(chunks, size);                                                       \
        Source<T> source(variables, contributions, treatments, part.item);                       \
        TakingSteps<T> taking(source, reading<Factored>(all) + part.item);                       \
        u64 end = smaller(part.end, source.variable->elements);                                  \
        for_each_element<TOGETHER>(part.start, end, taking);                                     \
        taking.note();                                                                           \
    }
TAKE_KERNEL(f32, float)
TAKE_KERNEL(f64, double)
