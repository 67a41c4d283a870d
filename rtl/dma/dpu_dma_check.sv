// Checks a LOAD or STORE word before any of its effects and cuts it into its DRAM side and its scratchpad side.
// A pipeline of four registers, one word a cycle, never held up: the owner takes no more words than it has room for.
// The order of the checks is the simulator's, so that a word with several faults reports the same one.

module dpu_dma_check
  import dpu_dma_pkg::*;
#(
  parameter bit          Store = 1'b0,
  parameter int unsigned Cols = 8,
  parameter int unsigned ActWords = 1024,
  parameter int unsigned WgtWords = 1024,
  parameter int unsigned VbufWords = 1024,
  parameter int unsigned ParamWords = 1024
) (
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  dpu_pkg::region_t [7:0]  regions_i,

  input  logic                    valid_i,
  // Waiver: tokens and flags are the queue's.
  /* verilator lint_off UNUSEDSIGNAL */
  input  dpu_isa_pkg::dma_word_t  word_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  slot_t                   slot_i,

  output logic                    busy_o,
  output logic                    valid_o,
  output runs_t                   runs_o,
  output walk_t                   walk_o,
  output logic [63:0]             fault_address_o
);

  import dpu_isa_pkg::*;

  localparam int unsigned ColsW = $clog2(Cols);

  // What the stages carry of the word.
  typedef struct packed {
    slot_t            slot;
    logic [7:0]       buffer;
    logic [7:0]       format;
    logic [7:0]       fill;
    logic [63:0]      offset;
    logic [31:0]      sram;
    logic [31:0]      inner;
    logic [2:0][15:0] n;
    logic signed [2:0][31:0] d;
    logic [2:0][15:0] s;
    logic [3:0][7:0]  pad;
    logic             base_bad;   // no such base register, or not bound
    logic             base_zero;
    logic [63:0]      base;
    logic [63:0]      limit;
  } item_t;

  // Words of the buffer that a cell takes.
  function automatic logic [31:0] cell_words(input logic [7:0] buffer, input logic [31:0] bytes);
    case (buffer)
      8'(BufferVbuf):  return 32'((33'(bytes) + 33'(2 * Cols - 1)) >> (ColsW + 1));
      8'(BufferParam): return 32'((33'(bytes) + 33'd3) >> 2);
      default:         return 32'((33'(bytes) + 33'(Cols - 1)) >> ColsW);
    endcase
  endfunction

  function automatic logic [31:0] capacity(input logic [7:0] buffer);
    case (buffer)
      8'(BufferWgt):   return WgtWords;
      8'(BufferVbuf):  return VbufWords;
      8'(BufferParam): return ParamWords;
      default:         return ActWords;
    endcase
  endfunction

  // Int4 blocks have 130 units of C / 2 bytes: two of group integers, 128 of rows. x / 65 for x < 2^31, exact.
  // Times ceil(2^38 / 65) = 63 (2^26 + 2^14 + 2^2) + 1, in adders.
  function automatic logic [31:0] div65(input logic [30:0] x);
    logic [36:0] x63;
    x63 = {x, 6'd0} - 37'(x);
    return 32'(({1'b0, x63, 26'd0} + 64'({x63, 14'd0}) + 64'({x63, 2'd0}) + 64'(x)) >> 38);
  endfunction

  // Stage 1: the word, its region looked up.
  logic  v1_q, v2_q, v3_q, v4_q;
  // Waiver: each stage leaves off some fields.
  /* verilator lint_off UNUSEDSIGNAL */
  item_t i1_q, i2_q, i3_q, i4_q;
  /* verilator lint_on UNUSEDSIGNAL */

  dpu_pkg::region_t region;
  assign region = regions_i[word_i.base[2:0]];

  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      i1_q <= '{
        slot: slot_i, buffer: word_i.buffer, format: word_i.format, fill: unsigned'(word_i.fill),
        offset: word_i.offset, sram: word_i.sram, inner: word_i.inner,
        n: word_i.n, d: word_i.dstride, s: word_i.sstride, pad: word_i.pad,
        base_bad: word_i.base > 8'd7 || region.limit == '0, base_zero: word_i.base == '0,
        base: region.base, limit: region.limit
      };
    end
  end

  // Stage 2: spans of the dimensions, words of a cell.
  logic [2:0][48:0] span_q;      // signed
  logic [2:0][32:0] sspan_q;
  logic [2:0][16:0] cells2_q, cells3_q, cells4_q;
  logic [31:0]      words2_q, words3_q;
  logic [31:0]      blocks2_q;   // whole blocks
  logic [31:0]      units2_q;

  function automatic logic [48:0] span(input logic [15:0] n, input logic [31:0] d);
    logic [15:0]        steps;
    logic signed [48:0] high;
    // One multiplier of 27 x 18 bits for all but the six highest bits, which are additions.
    steps = n - 16'd1;
    high  = d[31] ? -$signed({28'd0, steps, 5'd0}) : 49'sd0;
    for (int unsigned k = 0; k < 5; k++) if (d[26+k]) high += $signed({33'd0, steps}) << k;
    return unsigned'(49'($signed({1'b0, steps})) * 49'($signed({1'b0, d[25:0]})) + (high << 26));
  endfunction

  logic [2:0][16:0] cells1, steps1;  // no cells: the steps are anything, and not looked at
  assign cells1[0] = 17'(i1_q.n[0]) + 17'(i1_q.pad[0]) + 17'(i1_q.pad[1]);
  assign cells1[1] = 17'(i1_q.n[1]) + 17'(i1_q.pad[2]) + 17'(i1_q.pad[3]);
  assign cells1[2] = 17'(i1_q.n[2]);
  for (genvar k = 0; k < 3; k++) begin : gen_steps
    assign steps1[k] = cells1[k] - 17'd1;
  end

  always_ff @(posedge clk_i) begin
    if (v1_q) begin
      i2_q <= i1_q;
      for (int unsigned k = 0; k < 3; k++) begin
        span_q[k]   <= span(i1_q.n[k], i1_q.d[k]);
        cells2_q[k] <= cells1[k];
        sspan_q[k]  <= 33'(steps1[k]) * 33'(i1_q.s[k]);
      end
      words2_q  <= cell_words(i1_q.buffer, i1_q.inner);
      units2_q  <= i1_q.inner >> (ColsW - 1);
      blocks2_q <= div65(31'(i1_q.inner >> ColsW));  // a block is 65 C bytes
    end
  end

  // Stage 3: sums of the spans, dimensions 1 and 2 merged.
  logic [50:0] low_q, high_q;    // signed
  logic [34:0] top_q;
  logic [47:0] run3_q;
  logic [1:0]  joined3_q;
  logic [47:0] span3_q;
  logic [31:0] rows3_q;
  logic        odd3_q;

  function automatic logic [50:0] part(input logic [48:0] x, input logic negative);
    return x[48] == negative ? {{2{x[48]}}, x} : '0;
  endfunction

  // Whether a dimension continues the run that the ones before it make.
  function automatic logic joins(input logic [15:0] n, input logic [31:0] d, input logic [47:0] run);
    return n == 16'd1 || {{16{d[31]}}, d} == run;
  endfunction

  // Rows of int4 blocks, and whether these are whole rows with their group integers.
  function automatic logic [32:0] int4_rows(
    input logic [31:0] inner, input logic [31:0] units, input logic [31:0] blocks
  );
    logic [31:0] rest;
    logic odd;
    rest = units - 32'(blocks << 7) - 32'(blocks << 1);
    odd = (inner & 32'(Cols / 2 - 1)) != '0 || rest == 32'd1 || rest == 32'd2;
    return {odd, 32'(blocks << 7) + (rest == '0 ? 32'd0 : rest - 32'd2)};
  endfunction

  logic [47:0] run1, run2;
  logic        join1, join2;
  assign join1 = joins(i2_q.n[0], i2_q.d[0], 48'(i2_q.inner));
  assign run1  = join1 ? 48'(i2_q.inner) + span_q[0][47:0] : 48'(i2_q.inner);
  assign join2 = join1 & joins(i2_q.n[1], i2_q.d[1], run1);
  assign run2  = join2 && i2_q.n[1] != 16'd1 ? run1 + span_q[1][47:0] : run1;

  always_ff @(posedge clk_i) begin
    if (v2_q) begin
      i3_q     <= i2_q;
      low_q    <= part(span_q[0], 1'b1) + part(span_q[1], 1'b1) + part(span_q[2], 1'b1);
      high_q   <= part(span_q[0], 1'b0) + part(span_q[1], 1'b0) + part(span_q[2], 1'b0) + 51'(i2_q.inner);
      top_q    <= i2_q.format == 8'(DmaFormatTranspose) && !Store ?
          35'(sspan_q[1]) + 35'(sspan_q[2]) : 35'(sspan_q[0]) + 35'(sspan_q[1]) + 35'(sspan_q[2]);
      run3_q    <= run2;
      joined3_q <= {join2, join1};
      span3_q   <= span_q[2][47:0];
      cells3_q  <= cells2_q;
      words3_q  <= words2_q;
      {odd3_q, rows3_q} <= Store ? '0 : int4_rows(i2_q.inner, units2_q, blocks2_q);  // a STORE of int4 is no word
    end
  end

  // Stage 4: the ends in DRAM and in the scratchpad, dimension 3 merged.
  logic        below4_q;         // begins before the region
  logic [65:0] high4_q;
  logic [36:0] top4_q;
  logic [47:0] run4_q;
  logic [2:0]  joined4_q;
  // Waiver: STORE has no int4.
  /* verilator lint_off UNUSEDSIGNAL */
  logic        odd4_q;
  /* verilator lint_on UNUSEDSIGNAL */
  logic        join3;
  assign join3 = joined3_q[1] & joins(i3_q.n[2], i3_q.d[2], run3_q);

  always_ff @(posedge clk_i) begin
    if (v3_q) begin
      i4_q      <= i3_q;
      below4_q  <= {2'b00, i3_q.offset} < 66'(51'(-low_q));
      high4_q   <= {2'b00, i3_q.offset} + 66'(high_q);
      run4_q    <= join3 && i3_q.n[2] != 16'd1 ? run3_q + span3_q : run3_q;
      joined4_q <= {join3, joined3_q};
      cells4_q  <= cells3_q;
      odd4_q    <= odd3_q;
      case (i3_q.format)
        8'(DmaFormatInt4):      top4_q <= 37'(top_q) + 37'(i3_q.sram) + 37'(rows3_q);
        8'(DmaFormatTranspose): top4_q <= 37'(top_q) + 37'(i3_q.sram) + 37'(Cols);
        default:                top4_q <= 37'(top_q) + 37'(i3_q.sram) + 37'(words3_q);
      endcase
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {v4_q, v3_q, v2_q, v1_q} <= '0;
    else         {v4_q, v3_q, v2_q, v1_q} <= {v3_q, v2_q, v1_q, valid_i};
  end

  // The verdict.
  error_e code;
  kind_e  kind;
  logic   empty, no_runs, off_region, off_buffer;

  assign no_runs    = i4_q.n[0] == '0 || i4_q.n[1] == '0 || i4_q.n[2] == '0;
  assign off_region = i4_q.base_bad || (!no_runs && (below4_q || high4_q > {2'b00, i4_q.limit}));
  assign off_buffer = top4_q > 37'(capacity(i4_q.buffer));

  always_comb begin
    case (i4_q.format)
      8'(DmaFormatFill):      kind = KindFill;
      8'(DmaFormatInt4):      kind = KindInt4;
      8'(DmaFormatTranspose): kind = KindTranspose;
      default:                kind = KindRaw;
    endcase
    if (i4_q.buffer == 8'(BufferTable)) kind = KindTable;
  end

  if (Store) begin : gen_store
    always_comb begin
      empty = i4_q.inner == '0 || no_runs;
      code  = ErrorNone;
      if (!empty) begin
        if (!(i4_q.buffer inside {8'(BufferAct), 8'(BufferVbuf), 8'(BufferParam)})) code = ErrorField;
        else if (i4_q.format != 8'(DmaFormatRaw) || i4_q.pad != '0) code = ErrorField;
        else if (i4_q.base_zero) code = ErrorRegion;
        else if (off_buffer) code = ErrorScratchpad;
        else if (off_region) code = ErrorRegion;
      end
    end
  end else begin : gen_load
    logic weights_only, no_cells, no_tiles;
    assign no_cells = cells4_q[0] == '0 || cells4_q[1] == '0 || cells4_q[2] == '0;
    assign no_tiles = i4_q.n[1] == '0 || i4_q.n[2] == '0;
    assign weights_only = i4_q.buffer == 8'(BufferWgt) && i4_q.pad == '0;
    always_comb begin
      empty = i4_q.inner == '0;
      code  = ErrorNone;
      if (!empty) begin
        if (i4_q.buffer > 8'(BufferTable) || i4_q.buffer == 8'(BufferAcc) || i4_q.format > 8'(DmaFormatTranspose)) begin
          code = ErrorField;
        end else begin
          case (kind)
            KindTable: begin
              if (i4_q.sram >= TableSlots) code = ErrorScratchpad;
              else if (i4_q.inner != TableBytes || i4_q.n != {3{16'd1}}) code = ErrorField;
              else if (off_region) code = ErrorRegion;
            end
            KindTranspose: begin
              if (off_region) code = ErrorRegion;
              else if (!weights_only || i4_q.n[0] > 16'(Cols) || i4_q.inner > Cols) code = ErrorField;
              else if (no_tiles) empty = 1'b1;
              else if (off_buffer) code = ErrorScratchpad;
            end
            KindInt4: begin
              if (off_region) code = ErrorRegion;
              else if (!weights_only) code = ErrorField;
              else if (no_runs) empty = 1'b1;
              else if (odd4_q) code = ErrorField;
              else if (off_buffer) code = ErrorScratchpad;
            end
            default: begin
              if (kind == KindRaw && off_region) code = ErrorRegion;
              else if (no_cells) empty = 1'b1;
              else if (off_buffer) code = ErrorScratchpad;
            end
          endcase
        end
      end
    end
  end

  assign busy_o  = v1_q | v2_q | v3_q | v4_q;
  assign valid_o = v4_q;

  // A scratchpad address for ErrorScratchpad, else one in DRAM.
  assign fault_address_o = code == ErrorScratchpad ? 64'(i4_q.sram) : i4_q.base + i4_q.offset;

  always_comb begin
    runs_o = '{
      slot: i4_q.slot, code: code, none: empty || no_runs || kind == KindFill || code != ErrorNone,
      counted: i4_q.format != 8'(DmaFormatFill), address: i4_q.base + i4_q.offset, run: run4_q, n: i4_q.n, d: i4_q.d
    };
    if (joined4_q[0]) runs_o.n[0] = 16'd1;
    if (joined4_q[1]) runs_o.n[1] = 16'd1;
    if (joined4_q[2]) runs_o.n[2] = 16'd1;
    if (kind == KindTable) runs_o.run = 48'(TableBytes);
    walk_o = '{
      slot: i4_q.slot, code: code, empty: empty || code != ErrorNone, kind: kind,
      buffer: buffer_e'(i4_q.buffer[3:0]), fill: i4_q.fill, table_slot: i4_q.sram[0], sram: i4_q.sram[15:0],
      inner: i4_q.inner, cells: cells4_q, pad_before: {i4_q.pad[2], i4_q.pad[0]}, n: i4_q.n, s: i4_q.s,
      turn_runs: i4_q.n[0][7:0], turn_bytes: i4_q.inner[7:0]
    };
    if (kind == KindTranspose) begin
      walk_o.cells[0] = 17'd1;
      walk_o.inner    = 32'(Cols * Cols);
    end
    if (kind == KindTable) begin
      walk_o.cells  = '{default: 17'd1};
      walk_o.pad_before = '0;
      walk_o.sram   = '0;
      walk_o.inner  = TableBytes + 32'd16;  // one step more, for the verdict
    end
  end

endmodule
