// Reads the scalars that accompany many beats, ahead of the lanes, into one of two banks: those of L rows or those of
// the columns of a tile. A group of reads fills a bank: of each scalar vector that is used, one read or several.
// Groups come `groups` a pass, `passes` times over; the reader pops a bank when it has done with it.

module dpu_vpu_loader
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Lanes = 8,
  parameter int unsigned Vectors = 5,
  parameter int unsigned Reads = 1,  // of a vector in a group
  parameter int unsigned Stride = 8  // scalars from group to group
) (
  input  logic                           clk_i,
  input  logic                           rst_ni,

  // the word; done: it has been taken
  input  logic                           word_valid_i,
  output logic                           word_done_o,
  input  logic [Vectors-1:0]             used_i,
  input  logic [Vectors-1:0][15:0]       at_i,
  input  logic [15:0]                    groups_i,
  input  logic [7:0]                     passes_i,
  input  logic [6:0]                     last_read_i,  // of the last group: its number of reads, less one

  output logic                           req_o,
  output logic [15:0]                    addr_o,
  input  logic                           grant_i,
  input  logic [Lanes-1:0][31:0]         data_i,

  output logic                           valid_o,
  input  logic [6:0]                     read_i,
  output logic [Vectors-1:0][Lanes-1:0][31:0] data_o,
  input  logic                           pop_i
);

  localparam int unsigned VectorW = $clog2(Vectors);
  localparam int unsigned ReadW = (Reads > 1) ? $clog2(Reads) : 1;

  logic                     active_q;
  logic [Vectors-1:0]       used_q, left_q, rest;
  logic [Vectors-1:0][15:0] at_q;
  logic [15:0]              groups_q, group_q, offset_q;  // group_q: left of the pass, with this one
  logic [7:0]               passes_q;
  logic [6:0]               read_q, last_read_q;
  logic                     begins, ends, fire, vector_ends, group_ends;
  logic [VectorW-1:0]       vector;
  logic [1:0]               held_q, filled_q;
  logic                     wr_bank_q, rd_bank_q;

  always_comb begin
    vector = '0;
    for (int unsigned k = Vectors; k > 0; k--) if (left_q[k-1]) vector = VectorW'(k - 1);
  end

  // A bank is held from its first read on.
  logic opened_q;
  assign req_o       = active_q & (opened_q | held_q != 2'd2);
  assign addr_o      = at_q[vector] + offset_q + 16'(read_q) * 16'(Lanes);
  assign fire        = req_o & grant_i;
  assign rest        = left_q & ~(Vectors'(1) << vector);
  assign vector_ends = read_q == ((group_q == 16'd1) ? last_read_q : 7'(Reads - 1));
  assign group_ends  = fire & vector_ends & (rest == '0);
  assign ends        = group_ends & (group_q == 16'd1) & (passes_q == 8'd1);
  assign begins      = word_valid_i & (used_i != '0) & (!active_q | ends);
  assign word_done_o = word_valid_i & ((used_i == '0) | begins);

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q <= 1'b0;
      opened_q <= 1'b0;
    end else begin
      if (begins) active_q <= 1'b1;
      else if (ends) active_q <= 1'b0;
      if (fire) opened_q <= !group_ends;
    end
  end

  always_ff @(posedge clk_i) begin
    if (begins) begin
      used_q      <= used_i;
      left_q      <= used_i;
      at_q        <= at_i;
      groups_q    <= groups_i;
      group_q     <= groups_i;
      passes_q    <= passes_i;
      last_read_q <= last_read_i;
      offset_q    <= '0;
      read_q      <= '0;
    end else if (fire) begin
      read_q <= vector_ends ? '0 : read_q + 7'd1;
      if (vector_ends) left_q <= rest;
      if (group_ends) begin
        left_q   <= used_q;
        group_q  <= (group_q == 16'd1) ? groups_q : group_q - 16'd1;
        offset_q <= (group_q == 16'd1) ? '0 : offset_q + 16'(Stride);
        if (group_q == 16'd1) passes_q <= passes_q - 8'd1;
      end
    end
  end

  // Answers.
  logic               answer_q, answer_last_q;
  logic [VectorW-1:0] answer_vector_q;
  logic [6:0]         answer_read_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      answer_q      <= 1'b0;
      answer_last_q <= 1'b0;
      held_q        <= '0;
      filled_q      <= '0;
      wr_bank_q     <= 1'b0;
      rd_bank_q     <= 1'b0;
    end else begin
      answer_q      <= fire;
      answer_last_q <= group_ends;
      held_q        <= held_q + 2'(fire & !opened_q) - 2'(pop_i);
      filled_q      <= filled_q + 2'(answer_last_q) - 2'(pop_i);
      if (answer_last_q) wr_bank_q <= !wr_bank_q;
      if (pop_i) rd_bank_q <= !rd_bank_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (fire) begin
      answer_vector_q <= vector;
      answer_read_q   <= read_q;
    end
  end

  assign valid_o = filled_q != '0;

  logic unused;  // of a group of few reads
  assign unused = ^{answer_read_q, read_i};

  for (genvar k = 0; k < Vectors; k++) begin : gen_vector
    logic [Lanes-1:0][31:0] bank_mem [2*Reads];
    if (Reads > 1) begin : gen_many
      always_ff @(posedge clk_i) begin
        if (answer_q && answer_vector_q == VectorW'(k)) bank_mem[{wr_bank_q, answer_read_q[ReadW-1:0]}] <= data_i;
      end
      assign data_o[k] = bank_mem[{rd_bank_q, read_i[ReadW-1:0]}];
    end else begin : gen_one
      always_ff @(posedge clk_i) begin
        if (answer_q && answer_vector_q == VectorW'(k)) bank_mem[wr_bank_q] <= data_i;
      end
      assign data_o[k] = bank_mem[rd_bank_q];
    end
  end

endmodule
