// Reads operand A or B of one word after the other, ahead of the lanes, in the order of the beats (tile, row, beat).
// An entry of its buffer is a scratchpad word (two of VBUF for float32), or L scalars of PARAM.
// A request is held until it is granted; the data come one cycle later.

module dpu_vpu_element
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,

  // the word; done: all is requested, the next one may come in the next cycle
  input  logic                       word_valid_i,
  output logic                       word_done_o,
  input  element_t                   element_i,
  input  logic [15:0]                rows_i,
  input  logic [7:0]                 tiles_i,
  input  logic [7:0]                 valid_i,
  input  logic                       vector_i,

  output logic                       acc_req_o,
  output logic                       vbuf_req_o,
  output logic                       param_req_o,
  output logic [15:0]                addr_o,
  input  logic                       grant_i,
  input  logic [Cols*32-1:0]         acc_data_i,
  input  logic [Cols*16-1:0]         vbuf_data_i,
  input  logic [Lanes*32-1:0]        param_data_i,

  output logic                       valid_o,
  output logic [Cols*32-1:0]         data_o,
  input  logic                       pop_i
);

  localparam int unsigned Depth = 4;
  localparam int unsigned Beats = Cols / Lanes;

  // Where the walk is.
  logic        active_q, wide_q, param_q, vector_q;
  buffer_e     buffer_q;
  logic [15:0] tile_at_q, row_at_q, rs_q, ts_q, rows_q, left_q;  // rows left of the tile, with this one
  logic [7:0]  tiles_q;  // left, with this one
  logic [6:0]  part_q, parts_q, last_parts_q;  // reads of an element of C columns; of the last tile

  logic        want, fire, begins, ends, row_ends, tile_ends;
  logic [2:0]  held_q;  // entries filled or on their way

  assign want      = active_q & ((held_q != 3'(Depth)) | (part_q != '0 & !param_q));
  assign acc_req_o   = want & (buffer_q == BufferAcc);
  assign vbuf_req_o  = want & (buffer_q == BufferVbuf);
  assign param_req_o = want & param_q;
  assign addr_o    = row_at_q + (param_q ? 16'(part_q) * 16'(Lanes) : 16'(part_q));
  assign fire      = want & grant_i;
  assign row_ends  = part_q == ((tiles_q == 8'd1) ? last_parts_q : parts_q);
  assign tile_ends = row_ends & (vector_q ? left_q <= 16'(Lanes) : left_q == 16'd1);
  assign ends      = fire & tile_ends & (tiles_q == 8'd1);

  // A word begins as the one before ends, or passes at once if it has no such operand. Its slot is seen as done then.
  assign begins      = word_valid_i & element_i.used & (!active_q | ends);
  assign word_done_o = word_valid_i & (!element_i.used | begins);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) active_q <= 1'b0;
    else if (begins) active_q <= 1'b1;
    else if (ends) active_q <= 1'b0;
  end

  always_ff @(posedge clk_i) begin
    if (begins) begin
      buffer_q  <= element_i.buffer;
      wide_q    <= element_i.buffer == BufferVbuf && element_i.format == FormatF32;
      param_q   <= element_i.buffer == BufferParam;
      vector_q  <= vector_i;
      tile_at_q <= element_i.at + element_i.ts;
      row_at_q  <= element_i.at;
      rs_q      <= vector_i ? 16'(Lanes) : element_i.rs;
      ts_q      <= element_i.ts;
      rows_q    <= rows_i;
      left_q    <= rows_i;
      tiles_q   <= tiles_i;
      part_q    <= '0;
      case (element_i.buffer)
        BufferParam: begin
          parts_q      <= 7'(Beats - 1);
          last_parts_q <= 7'((32'(valid_i) - 1) / Lanes);
        end
        BufferVbuf: begin
          parts_q      <= 7'(element_i.format == FormatF32);
          last_parts_q <= 7'(element_i.format == FormatF32);
        end
        default: begin
          parts_q      <= '0;
          last_parts_q <= '0;
        end
      endcase
    end else if (fire) begin
      part_q <= row_ends ? '0 : part_q + 7'd1;
      if (tile_ends) begin
        row_at_q  <= tile_at_q;
        tile_at_q <= tile_at_q + ts_q;
        left_q    <= rows_q;
        tiles_q   <= tiles_q - 8'd1;
      end else if (row_ends) begin
        row_at_q <= row_at_q + rs_q;
        left_q   <= left_q - (vector_q ? 16'(Lanes) : 16'd1);
      end
    end
  end

  // Answers go into the buffer: ACC whole, PARAM and float16 in the low part, float32 of VBUF in halves.
  logic       answer_q, answer_wide_q, answer_half_q;
  buffer_e    answer_buffer_q;
  logic [1:0] wr_q, rd_q;
  logic [2:0] filled_q;
  logic       fill, opens;
  logic       low_wr, high_wr;
  logic [Cols*16-1:0] low, high;
  logic [Cols*16-1:0] low_mem [Depth];
  logic [Cols*16-1:0] high_mem [Depth];

  assign opens   = fire & (param_q | part_q == '0);  // a new entry
  assign fill    = answer_q & (!answer_wide_q | answer_half_q);
  assign valid_o = filled_q != '0;
  assign data_o  = {high_mem[rd_q], low_mem[rd_q]};

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      answer_q <= 1'b0;
      held_q   <= '0;
      filled_q <= '0;
      wr_q     <= '0;
      rd_q     <= '0;
    end else begin
      answer_q <= fire;
      held_q   <= held_q + 3'(opens) - 3'(pop_i);
      filled_q <= filled_q + 3'(fill) - 3'(pop_i);
      if (fill) wr_q <= wr_q + 2'd1;
      if (pop_i) rd_q <= rd_q + 2'd1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (fire) begin
      answer_buffer_q <= buffer_q;
      answer_wide_q   <= wide_q;
      answer_half_q   <= part_q[0];
    end
    if (low_wr) low_mem[wr_q] <= low;
    if (high_wr) high_mem[wr_q] <= high;
  end

  // One write port a half, so that both are memories of LUTs.
  assign low_wr  = answer_q & !(answer_wide_q & answer_half_q);
  assign high_wr = answer_q & (answer_buffer_q != BufferVbuf | (answer_wide_q & answer_half_q));

  always_comb begin
    low  = '0;
    high = '0;
    if (answer_q) begin
      case (answer_buffer_q)
        BufferAcc:  {high, low} = acc_data_i;
        BufferVbuf: {high, low} = {vbuf_data_i, vbuf_data_i};
        default:    {high, low} = (Cols * 32)'(param_data_i);
      endcase
    end
  end

endmodule
