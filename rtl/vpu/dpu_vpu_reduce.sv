// Reductions of what the lanes put out: the tap is chosen, made float32 and neutral where no column counts (one stage),
// then squared (one stage), then goes to the row or the column reduction.
// Both keep their own order towards PARAM; dpu_vpu_order sees to it that words do not overtake one another.

module dpu_vpu_reduce
  import dpu_fp_pkg::*;
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned RowRoom = 64,
  localparam int unsigned CountW = $clog2(Lanes + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  logic                   word_valid_i,  // a word with a reduction begins
  /* verilator lint_off UNUSEDSIGNAL */  // a struct comes whole
  input  config_t                word_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic                   tile_begins_i,

  input  logic                   valid_i,
  /* verilator lint_off UNUSEDSIGNAL */  // a struct comes whole
  input  control_t               control_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic [Lanes-1:0][31:0] out_i,
  input  logic [Lanes-1:0][31:0] tap_i,

  output logic                   row_taken_o,
  output logic                   col_room_o,

  output logic                   rd_valid_o,
  output logic [15:0]            rd_addr_o,
  input  logic [Lanes-1:0][31:0] rd_data_i,

  // results, 0: rows, 1: columns
  output logic [1:0]                  wr_valid_o,
  output logic [1:0][15:0]            wr_addr_o,
  output logic [1:0][CountW-1:0]      wr_count_o,
  output logic [1:0][Lanes-1:0][31:0] wr_data_o,
  output logic [1:0]                  wr_last_o,
  output logic [1:0]                  wr_inexact_o,
  input  logic [1:0]                  wr_ready_i
);

  reduction_t word;
  always_comb begin
    word.rows       = word_i.rows;
    word.tiles      = word_i.tiles;
    word.valid      = word_i.valid;
    word.accumulate = word_i.red_accumulate;
    word.maximum    = word_i.red inside {ReduceMax, ReduceAbsmax};
    word.absolute   = word_i.red == ReduceAbsmax;
    word.squares    = word_i.red == ReduceSumSq;
    word.exact      = word_i.red_integer & (word_i.red == ReduceSum);
    word.at         = word_i.red_at;
    word.second     = word_i.red_second;
  end

  // What the reduction needs of the control.
  typedef struct packed {
    logic       columns;
    logic       maximum;
    logic       squares;
    logic [6:0] g;
    logic       row_last;
    logic       fresh;
    logic [2:0] accumulator;
    logic       tile_last;
  } tag_t;

  logic reduces, valid_1_q, valid_2_q;
  tag_t tag_1_q, tag_2_q;

  assign reduces = valid_i & (control_i.red != ReduceNone);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) {valid_1_q, valid_2_q} <= '0;
    else         {valid_1_q, valid_2_q} <= {reduces, valid_1_q};
  end

  always_ff @(posedge clk_i) begin
    if (reduces) begin
      tag_1_q <= '{columns: control_i.red_columns, maximum: control_i.red inside {ReduceMax, ReduceAbsmax},
                   squares: control_i.red == ReduceSumSq, g: control_i.g, row_last: control_i.row_last,
                   fresh: control_i.fresh, accumulator: control_i.accumulator, tile_last: control_i.tile_last};
    end
    if (valid_1_q) tag_2_q <= tag_1_q;
  end

  function automatic logic [31:0] tapped(format_e format, logic integer_tap, logic [31:0] stored, logic [31:0] value);
    logic [15:0] q;  // signed
    if (integer_tap) begin
      q = $unsigned(16'($signed(stored[7:0])));
      if (format == FormatI15Split) q += {stored[15], stored[15:8], 7'd0};
      return magnitude_to_f32(q[15], {16'd0, 16'(({q ^ {16{q[15]}}, 1'b1} + 17'(q[15])) >> 1)});
    end
    case (format)
      FormatF16: return f16_to_f32(stored[15:0]);
      FormatF32: return stored;
      default:   return value;
    endcase
  endfunction

  function automatic logic [31:0] prepared(reduce_e red, logic counts, logic [31:0] x);
    case (red)
      ReduceMax:    return counts ? x : MinusInf;
      ReduceAbsmax: return (counts && x[30:0] > AbsmaxFloor[30:0]) ? {1'b0, x[30:0]} : AbsmaxFloor;
      default:      return counts ? x : '0;
    endcase
  endfunction

  logic [Lanes-1:0][31:0] element, square;
  for (genvar l = 0; l < Lanes; l++) begin : gen_lane
    logic [31:0] element_1_q, element_2_q, square_2_q;
    always_ff @(posedge clk_i) begin
      if (reduces) begin
        element_1_q <= prepared(control_i.red, 8'(l) < control_i.count,
                                tapped(control_i.d_format, control_i.red_integer, out_i[l], tap_i[l]));
      end
      if (valid_1_q) begin
        element_2_q <= element_1_q;
        if (tag_1_q.squares) square_2_q <= fmul_split(element_1_q, element_1_q);
      end
    end
    assign element[l] = element_2_q;
    assign square[l]  = square_2_q;
  end

  logic        row_req, col_req;
  logic [15:0] row_addr, col_addr;

  assign rd_valid_o = row_req | col_req;
  assign rd_addr_o  = col_req ? col_addr : row_addr;

  dpu_vpu_rows #(
    .Cols (Cols),
    .Lanes(Lanes),
    .Room (RowRoom)
  ) u_rows (
    .clk_i,
    .rst_ni,
    .word_valid_i(word_valid_i & !word_i.red_columns),
    .word_i      (word),
    .valid_i     (valid_2_q & !tag_2_q.columns),
    .maximum_i   (tag_2_q.maximum),
    .squares_i   (tag_2_q.squares),
    .g_i         (tag_2_q.g),
    .row_last_i  (tag_2_q.row_last),
    .element_i   (element),
    .square_i    (square),
    .taken_o     (row_taken_o),
    .rd_req_o    (row_req),
    .rd_addr_o   (row_addr),
    .rd_grant_i  (!col_req),
    .rd_data_i,
    .wr_valid_o  (wr_valid_o[0]),
    .wr_addr_o   (wr_addr_o[0]),
    .wr_count_o  (wr_count_o[0]),
    .wr_data_o   (wr_data_o[0]),
    .wr_last_o   (wr_last_o[0]),
    .wr_inexact_o(wr_inexact_o[0]),
    .wr_ready_i  (wr_ready_i[0])
  );

  dpu_vpu_columns #(
    .Cols (Cols),
    .Lanes(Lanes)
  ) u_columns (
    .clk_i,
    .rst_ni,
    .word_valid_i (word_valid_i & word_i.red_columns),
    .word_i       (word),
    .tile_begins_i(tile_begins_i),
    .room_o       (col_room_o),
    .valid_i      (valid_2_q & tag_2_q.columns),
    .fresh_i      (tag_2_q.fresh),
    .accumulator_i(tag_2_q.accumulator),
    .g_i          (tag_2_q.g),
    .tile_last_i  (tag_2_q.tile_last),
    .element_i    (element),
    .square_i     (square),
    .rd_req_o     (col_req),
    .rd_addr_o    (col_addr),
    .rd_data_i,
    .wr_valid_o   (wr_valid_o[1]),
    .wr_addr_o    (wr_addr_o[1]),
    .wr_count_o   (wr_count_o[1]),
    .wr_data_o    (wr_data_o[1]),
    .wr_last_o    (wr_last_o[1]),
    .wr_inexact_o (wr_inexact_o[1]),
    .wr_ready_i   (wr_ready_i[1])
  );

endmodule
