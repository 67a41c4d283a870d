// Types of the vector engine: a checked word, and what accompanies a beat of L elements down the lanes.
// Addresses are 16 bits (MAX_WORDS of ir/arch.py); a beat is L adjacent columns of a row, or L rows in vector mode.
// The stages of the lanes are numbered here, doc/dpu_vpu.md lists them.

package dpu_vpu_pkg;

  import dpu_isa_pkg::*;
  import dpu_fp_pkg::FuncLatency;

  parameter int unsigned NarrowLanes = 4;  // of RECIP and RSQRT (ir/cost.py: NARROW_LANES)
  parameter int unsigned Accumulators = 8;  // of a column sum (docs/numerics.md section 6)
  parameter int unsigned WordsInPipe = 8;  // words between their first beat and done

  // Registers of the lanes: stage 0 holds the operands of a beat, stage StageY the function's result.
  parameter int unsigned StageX = 2;  // converted operands
  parameter int unsigned StageArg = 6;  // argument of the function
  parameter int unsigned StageY = StageArg + FuncLatency;
  parameter int unsigned StageOut = StageY + 4;  // converted result and tap
  parameter int unsigned Stages = StageOut + 1;
  parameter int unsigned WaitW = $clog2(StageY - StageX + 1);  // beats that wait for the function

  parameter logic [31:0] MinusInf = 32'hFF80_0000;
  parameter logic [31:0] AbsmaxFloor = 32'h3380_0000;  // 2^-24
  parameter logic [30:0] ExactLimit = 31'h4B80_0000;  // 2^24

  // Factors: a1, b1, a2, b2, r; sub is a sixth scalar of a row.
  parameter int unsigned Factors = 5;
  parameter int unsigned FactorA1 = 0;
  parameter int unsigned FactorB1 = 1;
  parameter int unsigned FactorA2 = 2;
  parameter int unsigned FactorB2 = 3;
  parameter int unsigned FactorR = 4;
  parameter int unsigned Sub = 5;
  parameter int unsigned RowScalars = 6;

  // Operand A or B.
  typedef struct packed {
    logic        used;
    buffer_e     buffer;
    format_e     format;
    logic [15:0] at;
    logic [15:0] rs;
    logic [15:0] ts;
  } element_t;

  // A word that has passed its checks.
  typedef struct packed {
    logic [31:0]                  index;
    logic                         trap;
    logic [15:0]                  rows;
    logic [7:0]                   tiles;
    logic [7:0]                   valid;
    logic                         vector;  // a beat is L rows of one column
    logic                         narrow;  // RECIP, RSQRT
    element_t                     a;
    element_t                     b;
    operand_e [Factors-1:0]       kind;
    logic [RowScalars-1:0]        row_used;  // scalars of a row: factors of kind ROW, sub
    logic [Factors-1:0]           col_used;
    logic [RowScalars-1:0][15:0]  scalar_at;
    logic [1:0][31:0]             imm;
    function_e                    func;
    logic                         slot;
    op2_e                         op2;
    operand_e                     op2_kind;
    buffer_e                      d_buffer;
    format_e                      d_format;
    logic [15:0]                  d;
    logic [15:0]                  d_rs;
    logic [15:0]                  d_ts;
    logic [15:0]                  d_plane;  // from the high plane of I15_SPLIT to the low one
    reduce_e                      red;
    logic                         red_columns;
    logic                         red_integer;
    logic                         red_accumulate;
    logic [15:0]                  red_at;
    logic [15:0]                  red_second;  // of SUM_SQ
  } config_t;

  // What accompanies a beat.
  typedef struct packed {
    format_e                a_format;
    format_e                b_format;
    logic                   subtract;
    logic [Factors-1:0]     factor;  // the step is done
    logic                   a2_elem;
    logic                   b2_elem;
    logic                   op2_elem;
    function_e              func;
    logic                   slot;
    op2_e                   op2;
    logic [5:0]             part;  // RECIP, RSQRT: which NarrowLanes lanes
    logic                   drop;  // not the last part: ends at the function
    logic [7:0]             count;  // lanes that count
    buffer_e                d_buffer;
    format_e                d_format;
    logic [15:0]            d_at;
    logic [15:0]            d_plane;
    logic [6:0]             g;  // beat of the word
    logic                   row_last;  // last beat of row and tile
    logic                   word_last;
    logic                   trap;
    reduce_e                red;
    logic                   red_columns;
    logic                   red_integer;
    logic                   fresh;  // one of the first rows: an accumulator starts
    logic [2:0]             accumulator;
    logic                   tile_last;  // last beat of a tile
  } control_t;

  // A row or column reduction, from its word's first beat until its results are written.
  typedef struct packed {
    logic [15:0] rows;
    logic [7:0]  tiles;
    logic [7:0]  valid;
    logic        accumulate;
    logic        maximum;
    logic        absolute;
    logic        squares;
    logic        exact;  // a sum of integers: beyond 2^24 it is an error
    logic [15:0] at;
    logic [15:0] second;
  } reduction_t;

  // One node of a reduction.
  function automatic logic [31:0] combine(logic maximum, logic [31:0] a, logic [31:0] b);
    return dpu_fp_pkg::fmax_or_add(maximum, a, b);
  endfunction

endpackage
