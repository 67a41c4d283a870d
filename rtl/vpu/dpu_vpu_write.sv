// Puts results away: beats become words of VBUF or ACT (columns that do not count are filled), or go to a buffer of
// PARAM writes. float32 in VBUF and the planes of I15_SPLIT are two words, written one after the other.
// Counts overflows and NaN, and tells when a word's last beat has been put away and whether one was among it.

module dpu_vpu_write
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned Room = 32,
  localparam int unsigned CountW = $clog2(Lanes + 1)
) (
  input  logic                   clk_i,
  input  logic                   rst_ni,

  input  logic                   valid_i,
  /* verilator lint_off UNUSEDSIGNAL */  // a struct comes whole
  input  control_t               control_i,
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic [Lanes-1:0][31:0] out_i,
  input  logic [Lanes-1:0]       odd_i,

  output logic                   vbuf_wr_valid_o,
  output logic [15:0]            vbuf_wr_addr_o,
  output logic [Cols*16-1:0]     vbuf_wr_data_o,
  output logic                   act_wr_valid_o,
  output logic [15:0]            act_wr_addr_o,
  output logic [Cols*8-1:0]      act_wr_data_o,

  output logic                   param_wr_valid_o,
  output logic [15:0]            param_wr_addr_o,
  output logic [CountW-1:0]      param_wr_count_o,
  output logic [Lanes-1:0][31:0] param_wr_data_o,
  output logic                   param_wr_last_o,  // of the word
  input  logic                   param_wr_ready_i,

  output logic                   passed_o,  // the last beat of a word
  output logic                   passed_odd_o,
  output logic [31:0]            overflows_o,
  output logic [31:0]            nans_o
);

  localparam int unsigned Beats = Cols / Lanes;
  localparam int unsigned BeatW = (Beats > 1) ? $clog2(Beats) : 1;

  // Counts.
  logic [7:0] odd;
  logic       half;
  always_comb begin
    odd = '0;
    if (valid_i) for (int unsigned l = 0; l < Lanes; l++) odd += 8'(odd_i[l] & (8'(l) < control_i.count));
  end
  assign half = control_i.d_format == FormatF16;

  logic [7:0] odd_q;
  logic       half_q, some_q, passed_1_q, passed_2_q, odd_1_q, odd_2_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      odd_q      <= '0;
      some_q     <= 1'b0;
      passed_1_q <= 1'b0;
      passed_2_q <= 1'b0;
    end else begin
      odd_q      <= odd;
      if (valid_i) some_q <= (some_q | odd != '0) & !control_i.word_last;
      passed_1_q <= valid_i & control_i.word_last;
      passed_2_q <= passed_1_q;
    end
  end
  always_ff @(posedge clk_i) begin
    if (valid_i) begin
      half_q  <= half;
      odd_1_q <= some_q | odd != '0;
    end
    odd_2_q <= odd_1_q;
  end

  assign overflows_o  = half_q ? 32'(odd_q) : '0;
  assign nans_o       = half_q ? '0 : 32'(odd_q);
  assign passed_o     = passed_2_q;
  assign passed_odd_o = odd_2_q;

  // Words. A row's beats gather until the last one, which takes them along.
  logic                              to_word, word_valid_q, second_q;
  typedef logic [Lanes-1:0][31:0] line_t;
  logic [Beats-1:0][Lanes-1:0][31:0] gathered_q;
  logic [Beats-1:0][Lanes-1:0][31:0] word, word_q;
  line_t                             filled;
  logic [31:0]                       fill;
  buffer_e                           buffer_q;
  format_e                           format_q;
  logic [15:0]                       at_q, second_at_q;
  logic                              pair;

  assign to_word = valid_i & (control_i.d_buffer inside {BufferVbuf, BufferAct});
  assign fill    = (control_i.d_format == FormatI8Offset) ? 32'h80 : '0;
  for (genvar l = 0; l < Lanes; l++) begin : gen_fill
    assign filled[l] = (8'(l) < control_i.count) ? out_i[l] : fill;
  end

  always_comb begin
    word = '0;
    if (to_word && control_i.row_last) begin
      for (int unsigned b = 0; b < Beats; b++) begin
        word[b] = (7'(b) == control_i.g) ? filled : (7'(b) < control_i.g) ? gathered_q[b] : line_t'({Lanes{fill}});
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (to_word) begin
      if (!control_i.row_last) gathered_q[BeatW'(control_i.g)] <= filled;
      if (control_i.row_last) begin
        word_q      <= word;
        buffer_q    <= control_i.d_buffer;
        format_q    <= control_i.d_format;
        at_q        <= control_i.d_at;
        second_at_q <= control_i.d_at + ((control_i.d_buffer == BufferAct) ? control_i.d_plane : 16'd1);
      end
    end
  end

  assign pair = format_q inside {FormatF32, FormatI15Split};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      word_valid_q <= 1'b0;
      second_q     <= 1'b0;
    end else begin
      word_valid_q <= to_word & control_i.row_last;
      second_q     <= word_valid_q & pair;
    end
  end

  typedef logic [Cols-1:0][31:0]   elements_t;
  typedef logic [1:0][Cols*16-1:0] halves_t;
  elements_t element;
  halves_t   halves;
  assign element = elements_t'(word_q);
  assign halves  = halves_t'(word_q);

  always_comb begin
    vbuf_wr_data_o = '0;
    act_wr_data_o  = '0;
    if (vbuf_wr_valid_o) begin
      for (int unsigned c = 0; c < Cols; c++) vbuf_wr_data_o[c*16+:16] = element[c][15:0];
      if (format_q == FormatF32) vbuf_wr_data_o = halves[second_q];
    end
    if (act_wr_valid_o) begin
      for (int unsigned c = 0; c < Cols; c++) begin
        act_wr_data_o[c*8+:8] = (format_q == FormatI15Split && !second_q) ? element[c][15:8] : element[c][7:0];
      end
    end
  end

  assign vbuf_wr_valid_o = (word_valid_q | second_q) & (buffer_q == BufferVbuf);
  assign act_wr_valid_o  = (word_valid_q | second_q) & (buffer_q == BufferAct);
  assign vbuf_wr_addr_o  = second_q ? second_at_q : at_q;
  assign act_wr_addr_o   = second_q ? second_at_q : at_q;

  // PARAM.
  typedef struct packed {
    logic [15:0]            at;
    logic [CountW-1:0]      count;
    logic                   last;
    logic [Lanes-1:0][31:0] data;
  } scalars_t;

  scalars_t wr, rd;
  logic     scalars_fit;
  logic [$clog2(Room+1)-1:0] unused_count;

  assign wr = '{at: control_i.d_at, count: CountW'(control_i.count), last: control_i.word_last, data: out_i};

  dpu_fifo #(
    .Width($bits(scalars_t)),
    .Depth(Room)
  ) u_scalars (
    .clk_i,
    .rst_ni,
    .clear_i   (1'b0),
    .wr_valid_i(valid_i & control_i.d_buffer == BufferParam),
    .wr_ready_o(scalars_fit),
    .wr_data_i (wr),
    .rd_valid_o(param_wr_valid_o),
    .rd_ready_i(param_wr_ready_i),
    .rd_data_o (rd),
    .count_o   (unused_count)
  );

  assign param_wr_addr_o  = rd.at;
  assign param_wr_count_o = rd.count;
  assign param_wr_data_o  = rd.data;
  assign param_wr_last_o  = rd.last;

`ifndef SYNTHESIS
  // Waiver: the assertion samples the asynchronous reset on purpose.
  /* verilator lint_off SYNCASYNCNET */
  ScalarsFit: assert property (@(posedge clk_i) disable iff (!rst_ni)
    !(valid_i && control_i.d_buffer == BufferParam && !scalars_fit));
  /* verilator lint_on SYNCASYNCNET */
`endif

endmodule
